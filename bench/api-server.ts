import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { ClusterRoleBinding, Namespace, ServiceAccount } from '@echoperator/runtime/kinds';
import { HttpClient } from '../packages/runtime/src/client/http-client.ts';
import { Transport } from '../packages/runtime/src/client/transport.ts';
import { startEnvironment } from '../testkit/test-environment.ts';
import type { BinaryName } from '../tools/programs/index.ts';

/** The namespace of all measured objects. */
export const namespace = 'bench';

/** The user agent of the bench, which distinguishes its requests from an operator's. */
export const benchUserAgent = 'bench';

/** A new API server with its own etcd. It contains only the CRDs, the namespace and an operator's service account. */
export interface ApiServer {
  /** Has an administrator's rights. */
  readonly client: Client;
  /** Creates another administrator's client with its own connections and user agent. */
  clientNamed(userAgent: string): Client;
  /** One JSON line per request. Complete when the server has stopped. */
  readonly auditLog: string;
  /** Has an administrator's rights. */
  readonly kubeconfigPath: string;
  /** The folder of the programs. */
  readonly programs: string;
  /** The process id of the API server. */
  readonly pid: number;
  readonly host: string;
  readonly port: string;
  /** The address of etcd's client API: `http://127.0.0.1:2379`. */
  readonly etcd: string;
  /** A folder with the files of a pod's /var/run/secrets/kubernetes.io/serviceaccount. */
  readonly serviceAccount: string;
  /** Creates such a folder for another service account with all rights. The audit log distinguishes the accounts. */
  serviceAccountNamed(name: string): Promise<string>;
  stop(): Promise<void>;
}

/** The group of all service accounts of the namespace. */
const serviceAccounts = `system:serviceaccounts:${namespace}`;

/**
 * Logs the requests in the namespace when the server has responded. Of watches it logs only the start, and only for
 * Echos and Jobs by the service accounts.
 */
const answersInNamespace = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ['${serviceAccounts}']
    omitStages: [ResponseComplete]
    verbs: [watch]
    resources:
      - { group: mmontes.io, resources: [echos] }
      - { group: batch, resources: [jobs] }
  - level: None
    verbs: [watch]
  - level: Metadata
    namespaces: [${namespace}]
  - level: None
`;

/** Logs every request of the service accounts, and a watch when it starts. */
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
 * Starts an API server. Its processes end with this one, even if it is killed.
 *
 * @param parent the parent of the folder for certificates, the audit log and etcd's data
 * @param options.auditPolicy what to log. Default: the requests in the namespace, and the starts of the operators'
 *   watches
 * @param options.extraPrograms to be in the folder of the programs
 */
export async function startApiServer(
  parent: string,
  options: { readonly auditPolicy?: string; readonly extraPrograms?: readonly BinaryName[] } = {},
): Promise<ApiServer> {
  const folder = join(parent, `api-server-${randomBytes(4).toString('hex')}`);
  await mkdir(folder);
  const environment = await startEnvironment({
    folder,
    crdFolders: [join(import.meta.dirname, '../crds')],
    auditPolicy: answersInNamespace,
    ...options,
  });
  const { config, auditLog, programs } = environment;
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
    kubeconfigPath: config.kubeconfigPath,
    programs,
    pid: await childNamed('kube-apiserver'),
    etcd: await clientUrlOf(await childNamed('etcd')),
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

/** Creates the namespace and gives its service accounts all rights. */
async function allowEverything(client: Client): Promise<void> {
  await client.create(Namespace, { metadata: { name: namespace } });
  await client.create(ClusterRoleBinding, {
    metadata: { name: 'operators' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: serviceAccounts }],
  });
}

/** Creates a service account. @returns a token for it */
async function tokenOf(name: string, client: Client, transport: Transport): Promise<string> {
  await client.create(ServiceAccount, { metadata: { name, namespace } });
  const answer = await transport.request({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 86_400 } },
  });
  return (answer as { readonly status: { readonly token: string } }).status.token;
}

/** Returns the address in the arguments of an etcd. @throws Error if there is none */
async function clientUrlOf(pid: number): Promise<string> {
  const args = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
  const flag = '--listen-client-urls=';
  const url = args.find((arg) => arg.startsWith(flag))?.slice(flag.length);
  if (url === undefined) throw new Error(`process ${pid} has no ${flag}`);
  return url;
}

/** Returns the id of this process's child that runs the program. @throws Error if there is none */
async function childNamed(program: string): Promise<number> {
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const status = await readFile(`/proc/${entry}/status`, 'utf8').catch(() => '');
    // The kernel truncates a name to 15 bytes.
    if (status.startsWith(`Name:\t${program.slice(0, 15)}\n`) && status.includes(`\nPPid:\t${process.pid}\n`)) {
      return Number(entry);
    }
  }
  throw new Error(`no child of this process runs ${program}`);
}
