import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { addressesOf, apiServerServiceIp } from './addresses.ts';
import { type Layout, nodeNames } from './layout.ts';
import type { ClusterState } from './state.ts';

interface Subject {
  readonly file: string;
  readonly commonName: string;
  readonly organization?: string;
  /** `DNS:…` and `IP:…`, for servers. */
  readonly alternativeNames?: readonly string[];
}

const validDays = '365';

/** Creates the cluster's CA, a certificate for every server and client, and a kubeconfig for every client. */
export async function makeCredentials(layout: Layout, { nodes, network }: ClusterState): Promise<void> {
  const addresses = addressesOf(network);
  await mkdir(layout.pki, { recursive: true, mode: 0o700 });
  await mkdir(layout.kubeconfigs, { recursive: true, mode: 0o700 });
  await makeAuthority(layout);
  const clients: Subject[] = [
    { file: 'admin', commonName: 'admin', organization: 'system:masters' },
    { file: 'controller-manager', commonName: 'system:kube-controller-manager' },
    { file: 'scheduler', commonName: 'system:kube-scheduler' },
    { file: 'proxy', commonName: 'system:kube-proxy' },
    { file: 'coredns', commonName: 'system:coredns' },
    { file: 'volume-driver', commonName: 'volume-driver' },
    ...nodeNames(nodes).map((name, index) => ({
      file: name,
      commonName: `system:node:${name}`,
      organization: 'system:nodes',
      alternativeNames: [`DNS:${name}`, `IP:${addresses.node(index)}`],
    })),
  ];
  const inCluster = [
    'kubernetes',
    'kubernetes.default',
    'kubernetes.default.svc',
    'kubernetes.default.svc.cluster.local',
  ];
  const apiServer: Subject = {
    file: 'apiserver',
    commonName: 'kube-apiserver',
    alternativeNames: [
      ...[...inCluster, 'localhost'].map((name) => `DNS:${name}`),
      ...['127.0.0.1', apiServerServiceIp, addresses.controlPlane].map((address) => `IP:${address}`),
    ],
  };
  const kubeletClient: Subject = { file: 'apiserver-kubelet-client', commonName: 'kube-apiserver-kubelet-client' };
  await Promise.all([apiServer, kubeletClient, ...clients].map((subject) => sign(layout, subject)));
  await Promise.all(clients.map(({ file }) => writeKubeconfig(layout, file, `https://${addresses.controlPlane}:6443`)));
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'] as const;

async function makeAuthority({ pki }: Layout): Promise<void> {
  const run = (...args: string[]) => execa('openssl', args, { cwd: pki });
  await run(
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    'ca.key',
    '-out',
    'ca.crt',
    '-subj',
    '/CN=kubernetes-ca',
    '-days',
    validDays,
  );
  await run('genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', '-out', 'service-accounts.key');
  await run('pkey', '-in', 'service-accounts.key', '-pubout', '-out', 'service-accounts.pub');
}

async function sign({ pki }: Layout, subject: Subject): Promise<void> {
  const { file, commonName, organization, alternativeNames } = subject;
  const name = `${organization === undefined ? '' : `/O=${organization}`}/CN=${commonName}`;
  const extensions = [
    'basicConstraints=CA:FALSE',
    'keyUsage=digitalSignature',
    'extendedKeyUsage=serverAuth,clientAuth',
    ...(alternativeNames === undefined ? [] : [`subjectAltName=${alternativeNames.join(',')}`]),
  ].flatMap((extension) => ['-addext', extension]);
  await execa(
    'openssl',
    [
      'req',
      '-x509',
      '-CA',
      'ca.crt',
      '-CAkey',
      'ca.key',
      ...newKey,
      '-keyout',
      `${file}.key`,
      '-out',
      `${file}.crt`,
    ].concat(['-subj', name, '-days', validDays], extensions),
    { cwd: pki },
  );
}

async function writeKubeconfig({ pki, kubeconfigs }: Layout, file: string, server: string): Promise<void> {
  const base64 = async (name: string) => (await readFile(join(pki, name))).toString('base64');
  const content = stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'cluster', cluster: { server, 'certificate-authority-data': await base64('ca.crt') } }],
    users: [
      {
        name: file,
        user: {
          'client-certificate-data': await base64(`${file}.crt`),
          'client-key-data': await base64(`${file}.key`),
        },
      },
    ],
    contexts: [{ name: 'cluster', context: { cluster: 'cluster', user: file } }],
    'current-context': 'cluster',
  });
  await writeFile(join(kubeconfigs, file), content, { mode: 0o600 });
}
