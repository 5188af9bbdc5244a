import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { dirname, resolve } from 'node:path';
import { isPromise } from 'node:util/types';
import type { Cluster, KubeConfig, User } from '@kubernetes/client-node';
import type { AuthenticationHeaders, Connection, TlsOptions } from './connection.ts';
import { ExecCredential, type ExecCredentials, type ExecPlugin } from './exec-credential.ts';
import { type Impersonation, impersonationHeaders } from './impersonation.ts';
import { type Credentials, ReloadedCredentials } from './reloaded-credentials.ts';

type ClientNode = typeof import('./client-node.ts');

/** The credentials of a kubeconfig's current user. */
export type KubeconfigUser = Required<Pick<Connection, 'tls' | 'authentication' | 'invalidate'>>;

/**
 * Reads the current user of a kubeconfig, and the TLS options for its cluster. This adds what KubeConfig does not
 * support: `tokenFile`, replaced files, rejected credentials of plugins, impersonation, and servers without TLS. As in
 * client-go, the latter get no credentials, only impersonation headers.
 *
 * @param files the files of the kubeconfig.
 */
export async function kubeconfigUser(
  clientNode: ClientNode,
  {
    cluster,
    user,
    files,
    usesTls,
  }: {
    readonly cluster: Cluster;
    /** Null: requests are anonymous. */
    readonly user: User | null;
    readonly files: readonly string[];
    readonly usesTls: boolean;
  },
): Promise<KubeconfigUser> {
  const file = user === null ? undefined : await findUser(clientNode, files, user.name);
  const createUser = async (): Promise<KubeconfigUser> => {
    if (!usesTls) return { tls: {}, authentication: () => ({}), invalidate: () => {} };
    const plain = withoutExecAndProxy(clientNode, cluster, user);
    const load = () => loadCredentials(plain);
    if (user?.exec) return execUser(user.exec, file?.path ?? '', cluster, await ReloadedCredentials.start(load));
    const tokenFile = file?.user.tokenFile;
    if (file && tokenFile) return tokenFileUser(resolve(dirname(file.path), tokenFile), load);
    // KubeConfig itself caches the credentials of an auth-provider until they expire.
    return ReloadedCredentials.start(load, user?.authProvider ? 0 : undefined);
  };
  const impersonation = impersonationHeaders(file?.user ?? {});
  const created = await createUser();
  return Object.keys(impersonation).length === 0 ? created : impersonatingUser(impersonation, created);
}

/** Adds impersonation headers to a user's credentials. */
function impersonatingUser(impersonation: AuthenticationHeaders, user: KubeconfigUser): KubeconfigUser {
  // `invalidate` compares headers by identity, so unchanged credentials must yield the same object.
  let own: AuthenticationHeaders | undefined;
  let combined: AuthenticationHeaders = impersonation;
  const combine = (headers: AuthenticationHeaders): AuthenticationHeaders => {
    if (headers !== own) combined = { ...headers, ...impersonation };
    own = headers;
    return combined;
  };
  return {
    get tls() {
      return user.tls;
    },
    authentication: () => {
      const headers = user.authentication();
      return isPromise(headers) ? headers.then(combine) : combine(headers);
    },
    invalidate: (headers) => {
      if (headers === combined && own !== undefined) user.invalidate(own);
    },
  };
}

function tokenFileUser(path: string, load: () => Promise<Credentials>): Promise<KubeconfigUser> {
  return ReloadedCredentials.start(async () => {
    const [{ tls }, token] = await Promise.all([load(), readFile(path, 'utf8')]);
    return { tls, headers: { authorization: `Bearer ${token.trim()}` } };
  });
}

/** @param files the CA, and the client certificate if the plugin prints none. The server cannot reject them. */
function execUser(plugin: ExecPlugin, file: string, cluster: Cluster, files: ReloadedCredentials): KubeconfigUser {
  const credential = new ExecCredential(plugin, file, () => clusterInfo(cluster, files.tls));
  let certificate: ExecCredentials['certificate'];
  // Keep the object if nothing has changed: a new object opens new connections.
  let fileTls = files.tls;
  let tls = fileTls;
  const use = (current: ExecCredentials): AuthenticationHeaders => {
    if (current.certificate?.cert !== certificate?.cert || files.tls !== fileTls) {
      certificate = current.certificate;
      fileTls = files.tls;
      tls = { ...fileTls, ...certificate };
    }
    return current.headers;
  };
  return {
    get tls() {
      return tls;
    },
    authentication: () => {
      const reloading = files.authentication();
      const current = credential.current();
      if (!isPromise(reloading) && !isPromise(current)) return use(current);
      return Promise.all([current, reloading]).then(([credentials]) => use(credentials));
    },
    invalidate: (headers) => credential.invalidate(headers),
  };
}

/**
 * Removes exec plugins, proxies and impersonation, so that KubeConfig neither runs programs nor creates agents. As in
 * client-go, data takes precedence over a file. Without a user KubeConfig would ignore the cluster's CA.
 */
function withoutExecAndProxy({ KubeConfig: Config }: ClientNode, cluster: Cluster, user: User | null): KubeConfig {
  const { proxyUrl: _, caFile, ...plainCluster } = cluster;
  const { exec: __, impersonateUser: ___, certFile, keyFile, ...plainUser } = user ?? { name: '' };
  const plain = new Config();
  plain.loadFromClusterAndUser(
    { ...plainCluster, ...(caFile && !cluster.caData && { caFile }) },
    {
      ...plainUser,
      ...(certFile && !plainUser.certData && { certFile }),
      ...(keyFile && !plainUser.keyData && { keyFile }),
    },
  );
  return plain;
}

async function loadCredentials(kubeConfig: KubeConfig): Promise<Credentials> {
  const options: RequestOptions = {};
  await kubeConfig.applyToHTTPSOptions(options);
  const { auth, headers } = options;
  return {
    tls: tlsOptions(options),
    headers: {
      ...stringHeaders(headers),
      ...(typeof auth === 'string' && { authorization: `Basic ${Buffer.from(auth).toString('base64')}` }),
    },
  };
}

/** KubeConfig sets each option to a single string or buffer, although the types allow more. */
function tlsOptions({ ca, cert, key, servername, rejectUnauthorized }: RequestOptions): TlsOptions {
  const pem = (value: unknown): string | Buffer | undefined =>
    typeof value === 'string' || Buffer.isBuffer(value) ? value : undefined;
  const [caPem, certPem, keyPem] = [pem(ca), pem(cert), pem(key)];
  return {
    ...(caPem !== undefined && { ca: caPem }),
    ...(certPem !== undefined && { cert: certPem }),
    ...(keyPem !== undefined && { key: keyPem }),
    ...(servername !== undefined && { servername }),
    ...(rejectUnauthorized !== undefined && { rejectUnauthorized }),
  };
}

function stringHeaders(headers: RequestOptions['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers ?? {}).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** The cluster information for an exec plugin with `provideClusterInfo` (KEP-541). */
function clusterInfo({ server, tlsServerName, skipTLSVerify, proxyUrl }: Cluster, { ca }: TlsOptions): object {
  return {
    server,
    'tls-server-name': tlsServerName,
    'insecure-skip-tls-verify': skipTLSVerify,
    'certificate-authority-data': ca === undefined ? undefined : Buffer.from(ca).toString('base64'),
    'proxy-url': proxyUrl,
  };
}

/** The fields of a user that KubeConfig does not read. */
interface FileUser extends Impersonation {
  readonly tokenFile?: string;
}

/** Finds the first file that defines the user. */
async function findUser(
  { parseYaml }: ClientNode,
  paths: readonly string[],
  name: string,
): Promise<{ readonly path: string; readonly user: FileUser } | undefined> {
  for (const path of paths) {
    const { users } = parseYaml(await readFile(path, 'utf8')) as {
      readonly users?: readonly { readonly name?: string; readonly user?: FileUser | null }[] | null;
    };
    const found = users?.find((user) => user.name === name);
    if (found !== undefined) return { path, user: found.user ?? {} };
  }
  return undefined;
}
