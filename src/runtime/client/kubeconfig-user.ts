import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { homedir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { isPromise } from 'node:util/types';
import type { KubeConfig } from '@kubernetes/client-node';
import type { AuthenticationHeaders, Connection, TlsOptions } from './connection.ts';
import { ExecCredential, type ExecCredentials, type ExecPlugin } from './exec-credential.ts';
import { type Impersonation, impersonationHeaders } from './impersonation.ts';
import { fileMaxAgeMs, TokenFile } from './token-file.ts';

type ClientNode = typeof import('./client-node.ts');

/** The credentials of a kubeconfig's current user. */
export type KubeconfigUser = Required<Pick<Connection, 'tls' | 'authentication' | 'invalidate'>>;

/** A snapshot of the credentials. */
interface Credentials {
  readonly headers: AuthenticationHeaders;
  readonly tls: TlsOptions;
}

/**
 * Reads the current user of a kubeconfig. This adds what KubeConfig does not support: `tokenFile`, replaced files,
 * rejected credentials of plugins, and impersonation.
 *
 * @param path the kubeconfig. Default: the files in `KUBECONFIG`, or `~/.kube/config`.
 */
export async function kubeconfigUser(
  clientNode: ClientNode,
  kubeConfig: KubeConfig,
  path: string | undefined,
): Promise<KubeconfigUser> {
  const user = kubeConfig.getCurrentUser();
  const files = path === undefined ? defaultFiles() : [path];
  const load = () => loadCredentials(withoutExecAndProxy(clientNode, kubeConfig));
  const first = await load();
  const file = user === null ? undefined : await findUser(clientNode, files, user.name);
  const createUser = () => {
    if (user?.exec) return execUser(user.exec, file?.path ?? '', kubeConfig, first.tls);
    const tokenFile = file?.user.tokenFile;
    if (file && tokenFile) return tokenFileUser(new TokenFile(resolve(dirname(file.path), tokenFile)), first);
    // KubeConfig itself caches the credentials of an auth-provider until they expire.
    return reloadingUser(load, first, user?.authProvider ? 0 : fileMaxAgeMs);
  };
  const impersonation = impersonationHeaders(file?.user ?? {});
  return Object.keys(impersonation).length === 0 ? createUser() : impersonatingUser(impersonation, createUser());
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

function tokenFileUser(token: TokenFile, { tls }: Credentials): KubeconfigUser {
  return {
    tls,
    authentication: () => token.authentication(),
    invalidate: (headers) => token.invalidate(headers),
  };
}

function execUser(plugin: ExecPlugin, file: string, kubeConfig: KubeConfig, clusterTls: TlsOptions): KubeconfigUser {
  const credential = new ExecCredential(plugin, file, clusterInfo(kubeConfig, clusterTls));
  let certificate: ExecCredentials['certificate'];
  let tls = clusterTls;
  const use = (current: ExecCredentials): AuthenticationHeaders => {
    // Keep the object if the certificate is the same: a new object opens new connections.
    if (current.certificate?.cert !== certificate?.cert) {
      certificate = current.certificate;
      tls = { ...clusterTls, ...certificate };
    }
    return current.headers;
  };
  return {
    get tls() {
      return tls;
    },
    authentication: () => {
      const current = credential.current();
      return isPromise(current) ? current.then(use) : use(current);
    },
    invalidate: (headers) => credential.invalidate(headers),
  };
}

/** Tokens, passwords and certificates in the kubeconfig or in files that it names. The files may be replaced. */
function reloadingUser(load: () => Promise<Credentials>, first: Credentials, maxAgeMs: number): KubeconfigUser {
  let current = first;
  let loadedAtMs = performance.now();
  let isRejected = false;
  let loading: Promise<AuthenticationHeaders> | undefined;
  const reload = async (): Promise<AuthenticationHeaders> => {
    try {
      const { headers, tls } = await load();
      // Keep the object if the TLS options are the same: a new object opens new connections.
      current = { headers, tls: JSON.stringify(tls) === JSON.stringify(current.tls) ? current.tls : tls };
    } catch (error) {
      // The file may be being replaced. Keep using the old credentials unless the server has rejected them.
      if (isRejected) throw error;
    }
    isRejected = false;
    loadedAtMs = performance.now();
    return current.headers;
  };
  return {
    get tls() {
      return current.tls;
    },
    authentication: () => {
      if (!isRejected && performance.now() - loadedAtMs < maxAgeMs) return current.headers;
      loading ??= reload().finally(() => {
        loading = undefined;
      });
      return loading;
    },
    invalidate: (headers) => {
      if (headers === current.headers) isRejected = true;
    },
  };
}

/** Removes exec plugins, proxies and impersonation, so that KubeConfig neither runs programs nor creates agents. */
function withoutExecAndProxy({ KubeConfig: Config }: ClientNode, kubeConfig: KubeConfig): KubeConfig {
  const plain = new Config();
  plain.loadFromOptions({
    clusters: kubeConfig.getClusters().map(({ proxyUrl: _, ...cluster }) => cluster),
    users: kubeConfig.getUsers().map(({ exec: _, impersonateUser: __, ...user }) => user),
    contexts: kubeConfig.getContexts(),
    currentContext: kubeConfig.getCurrentContext(),
  });
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
function clusterInfo(kubeConfig: KubeConfig, { ca }: TlsOptions): object {
  const cluster = kubeConfig.getCurrentCluster();
  return {
    server: cluster?.server,
    'tls-server-name': cluster?.tlsServerName,
    'insecure-skip-tls-verify': cluster?.skipTLSVerify,
    'certificate-authority-data': ca === undefined ? undefined : Buffer.from(ca).toString('base64'),
    'proxy-url': cluster?.proxyUrl,
  };
}

const defaultFiles = (): readonly string[] =>
  process.env.KUBECONFIG?.split(delimiter).filter((file) => file !== '') ?? [join(homedir(), '.kube', 'config')];

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
