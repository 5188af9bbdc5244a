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

/** How a kubeconfig's current user proves who it is. */
export type KubeconfigUser = Required<Pick<Connection, 'tls' | 'authentication' | 'unauthorized'>>;

/** What requests and connections carry at one time. */
interface Credentials {
  readonly headers: AuthenticationHeaders;
  readonly tls: TlsOptions;
}

/**
 * The current user of a kubeconfig. KubeConfig does what it can do; here is what it does not: a `tokenFile`, files that
 * are replaced, plugins whose credentials are refused, and a user who acts as another.
 *
 * @param path of the kubeconfig; absent: those that `KUBECONFIG` names, or the one at its default place.
 */
export async function kubeconfigUser(
  clientNode: ClientNode,
  kubeConfig: KubeConfig,
  path: string | undefined,
): Promise<KubeconfigUser> {
  const user = kubeConfig.getCurrentUser();
  const files = path === undefined ? defaultFiles() : [path];
  const load = () => loadCredentials(withoutExec(clientNode, kubeConfig));
  const first = await load();
  const file = user === null ? undefined : await fileOf(clientNode, files, user.name);
  const credentials = () => {
    if (user?.exec) return execUser(user.exec, file?.path ?? '', kubeConfig, first.tls);
    const tokenFile = file?.user.tokenFile;
    if (file && tokenFile) return tokenFileUser(new TokenFile(resolve(dirname(file.path), tokenFile)), first);
    // What an auth-provider hands out KubeConfig caches by itself, and knows when it expires.
    return reloadingUser(load, first, user?.authProvider ? 0 : fileMaxAgeMs);
  };
  const impersonation = impersonationHeaders(file?.user ?? {});
  return Object.keys(impersonation).length === 0 ? credentials() : actingAs(impersonation, credentials());
}

/** The same credentials, in requests that act as another user. */
function actingAs(impersonation: AuthenticationHeaders, user: KubeconfigUser): KubeconfigUser {
  // A refusal is told by the headers' identity, so the same credentials have the same headers.
  let own: AuthenticationHeaders | undefined;
  let both: AuthenticationHeaders = impersonation;
  const withBoth = (headers: AuthenticationHeaders): AuthenticationHeaders => {
    if (headers !== own) both = { ...headers, ...impersonation };
    own = headers;
    return both;
  };
  return {
    get tls() {
      return user.tls;
    },
    authentication: () => {
      const headers = user.authentication();
      return isPromise(headers) ? headers.then(withBoth) : withBoth(headers);
    },
    unauthorized: (headers) => {
      if (headers === both && own !== undefined) user.unauthorized(own);
    },
  };
}

function tokenFileUser(token: TokenFile, { tls }: Credentials): KubeconfigUser {
  return {
    tls,
    authentication: () => token.authentication(),
    unauthorized: (headers) => token.refused(headers),
  };
}

function execUser(plugin: ExecPlugin, file: string, kubeConfig: KubeConfig, clusterTls: TlsOptions): KubeconfigUser {
  const credential = new ExecCredential(plugin, file, clusterInfo(kubeConfig, clusterTls));
  let certificate: ExecCredentials['certificate'];
  let tls = clusterTls;
  const use = (current: ExecCredentials): AuthenticationHeaders => {
    // The same certificate again is no reason for new connections.
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
    unauthorized: (headers) => credential.refused(headers),
  };
}

/** Tokens, passwords and certificates that stand in the kubeconfig, or in files beside it, which may be replaced. */
function reloadingUser(load: () => Promise<Credentials>, first: Credentials, maxAgeMs: number): KubeconfigUser {
  let current = first;
  let loadedAtMs = performance.now();
  let refused = false;
  let loading: Promise<AuthenticationHeaders> | undefined;
  const reload = async (): Promise<AuthenticationHeaders> => {
    try {
      const { headers, tls } = await load();
      // The same TLS options again are no reason for new connections.
      current = { headers, tls: JSON.stringify(tls) === JSON.stringify(current.tls) ? current.tls : tls };
    } catch (error) {
      // A file that is just being replaced: what was in it is good until the server says otherwise.
      if (refused) throw error;
    }
    refused = false;
    loadedAtMs = performance.now();
    return current.headers;
  };
  return {
    get tls() {
      return current.tls;
    },
    authentication: () => {
      if (!refused && performance.now() - loadedAtMs < maxAgeMs) return current.headers;
      loading ??= reload().finally(() => {
        loading = undefined;
      });
      return loading;
    },
    unauthorized: (headers) => {
      if (headers === current.headers) refused = true;
    },
  };
}

/** The same without what would run a program or open a proxy's agent: both are done here. */
function withoutExec({ KubeConfig: Config }: ClientNode, kubeConfig: KubeConfig): KubeConfig {
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

/** Every value here is a single string or buffer: KubeConfig reads one file or one field for each. */
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

/** KEP-541: what a plugin is told of the cluster where it asks for that. */
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

/** What KubeConfig does not know of a user. */
interface FileUser extends Impersonation {
  readonly tokenFile?: string;
}

/** The file in which a user stands, and what it says there. */
async function fileOf(
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
