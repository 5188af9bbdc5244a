import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HttpClient } from '../src/runtime/client/http-client.ts';
import { kubeconfigConnection } from '../src/runtime/client/index.ts';
import { Transport } from '../src/runtime/client/transport.ts';
import type { Client } from '../src/runtime/index.ts';
import { ClusterRoleBinding, Namespace, ServiceAccount } from '../testkit/kinds.ts';
import { startEnvironment } from '../testkit/test-environment.ts';

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
  /** JSON lines, one a request. Whole once the server has stopped. */
  readonly auditLog: string;
  /** The API server's process. */
  readonly pid: number;
  readonly host: string;
  readonly port: string;
  /** A folder as a pod has it at /var/run/secrets/kubernetes.io/serviceaccount. */
  readonly serviceAccount: string;
  /** Such a folder for a service account of this name, which may do everything too. The audit log tells them apart. */
  serviceAccountNamed(name: string): Promise<string>;
  stop(): Promise<void>;
}

/** The group of all service accounts that are made here. */
const serviceAccounts = `system:serviceaccounts:${namespace}`;

/** Watches are left out: how many an operator opens says nothing of an Echo's cost. */
const answersInNamespace = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    verbs: [watch]
  - level: Metadata
    namespaces: [${namespace}]
  - level: None
`;

/** Every request of the service accounts; a watch when it begins. */
export const everyRequest = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ['${serviceAccounts}']
    omitStages: [ResponseComplete]
    verbs: [watch]
  - level: Metadata
    userGroups: ['${serviceAccounts}']
  - level: None
`;

/**
 * Starts one. Its processes end with this one, however that ends.
 *
 * @param parent where it makes a folder for certificates, the audit log and etcd's data
 * @param auditPolicy what the audit log holds. Default: the answered requests in the namespace that are no watches
 */
export async function startApiServer(parent: string, auditPolicy = answersInNamespace): Promise<ApiServer> {
  const folder = join(parent, `api-server-${randomBytes(4).toString('hex')}`);
  await mkdir(folder);
  const environment = await startEnvironment({
    folder,
    crdFolders: [join(import.meta.dirname, '../crds')],
    auditPolicy,
  });
  const { config, auditLog } = environment;
  const connection = await kubeconfigConnection(config.kubeconfigPath);
  const transports: Transport[] = [];
  const connect = (userAgent: string): Transport => {
    const transport = new Transport(connection, { userAgent });
    transports.push(transport);
    return transport;
  };
  const transport = connect(benchUserAgent);
  const client = new HttpClient(transport, benchUserAgent);
  await allowEverything(client);
  const serviceAccountNamed = async (name: string): Promise<string> => {
    const mounted = join(folder, `serviceaccount-${name}`);
    await mkdir(mounted);
    await writeFile(join(mounted, 'ca.crt'), Buffer.from(config.caData, 'base64'));
    await writeFile(join(mounted, 'namespace'), namespace);
    await writeFile(join(mounted, 'token'), await tokenOf(name, client, transport));
    return mounted;
  };
  return {
    client,
    clientNamed: (userAgent) => new HttpClient(connect(userAgent), userAgent),
    auditLog,
    pid: await childNamed('kube-apiserver'),
    host: connection.server.hostname,
    port: connection.server.port,
    serviceAccount: await serviceAccountNamed('operator'),
    serviceAccountNamed,
    stop: async () => {
      await Promise.all(transports.map((open) => open.close()));
      await environment.stop();
    },
  };
}

/** Makes the namespace, whose service accounts may do everything. */
async function allowEverything(client: Client): Promise<void> {
  await client.create(Namespace, { metadata: { name: namespace } });
  await client.create(ClusterRoleBinding, {
    metadata: { name: 'operators' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: serviceAccounts }],
  });
}

/** Makes a service account, and returns a token of it. */
async function tokenOf(name: string, client: Client, transport: Transport): Promise<string> {
  await client.create(ServiceAccount, { metadata: { name, namespace } });
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
