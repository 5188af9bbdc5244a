import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { addressesOf, dnsServiceIp, podNetwork, serviceNetwork } from './addresses.ts';
import { auditPolicy } from './audit-log.ts';
import { type Cgroups, makeCgroup, processesIn } from './cgroups.ts';
import type { ControlPlaneProgram } from './control-plane-program.ts';
import { startDaemon } from './daemon.ts';
import { kubectl } from './kubectl.ts';
import { controlPlaneCgroup, controlPlaneNamespace, type Layout } from './layout.ts';
import { pollUntilSolved } from './poll-until-solved.ts';
import type { Programs } from './programs.ts';
import type { ClusterState } from './state.ts';

/**
 * Resolves the names of Services and pods. Every other name is NXDOMAIN. That rule has its own server block, because
 * CoreDNS calls the template plugin before the kubernetes plugin.
 */
const corefile = (kubeconfig: string, address: string): string => `cluster.local in-addr.arpa ip6.arpa {
    bind ${address}
    errors
    kubernetes {
        kubeconfig ${kubeconfig}
        pods insecure
        ttl 5
    }
    cache 5
}
. {
    bind ${address}
    errors
    template ANY ANY {
        rcode NXDOMAIN
    }
}
`;

function commands(
  layout: Layout,
  state: ClusterState,
  programs: Programs,
): Readonly<Record<ControlPlaneProgram, readonly [string, ...string[]]>> {
  const { pki, kubeconfigs, folder } = layout;
  const { controlPlane } = addressesOf(state.network);
  const credentials = (name: string) => [`${pki}/${name}.crt`, `${pki}/${name}.key`] as const;
  const [serverCertificate, serverKey] = credentials('apiserver');
  const [kubeletCertificate, kubeletKey] = credentials('apiserver-kubelet-client');
  return {
    etcd: [
      programs.etcd,
      `--data-dir=${join(folder, 'etcd')}`,
      '--listen-client-urls=http://127.0.0.1:2379',
      '--advertise-client-urls=http://127.0.0.1:2379',
      '--listen-peer-urls=http://127.0.0.1:2380',
      // The data need not survive a crash of this machine.
      '--unsafe-no-fsync',
    ],
    apiserver: [
      programs['kube-apiserver'],
      '--etcd-servers=http://127.0.0.1:2379',
      `--advertise-address=${controlPlane}`,
      `--external-hostname=${controlPlane}`,
      '--secure-port=6443',
      `--tls-cert-file=${serverCertificate}`,
      `--tls-private-key-file=${serverKey}`,
      `--client-ca-file=${pki}/ca.crt`,
      `--service-account-key-file=${pki}/service-accounts.pub`,
      `--service-account-signing-key-file=${pki}/service-accounts.key`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-cluster-ip-range=${serviceNetwork}`,
      '--authorization-mode=Node,RBAC',
      '--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement',
      '--allow-privileged',
      // Calls a webhook at the addresses of its pods, because no kube-proxy runs here to route the Service's address.
      '--enable-aggregator-routing',
      `--kubelet-client-certificate=${kubeletCertificate}`,
      `--kubelet-client-key=${kubeletKey}`,
      `--kubelet-certificate-authority=${pki}/ca.crt`,
      '--kubelet-preferred-address-types=InternalIP',
      `--audit-log-path=${layout.auditLog}`,
      // Disables the rotation. By default the API server rotates the file at 100 MB.
      '--audit-log-maxsize=10000',
      `--audit-policy-file=${join(folder, 'audit-policy.yaml')}`,
    ],
    'controller-manager': [
      programs['kube-controller-manager'],
      `--kubeconfig=${join(kubeconfigs, 'controller-manager')}`,
      `--service-account-private-key-file=${pki}/service-accounts.key`,
      `--root-ca-file=${pki}/ca.crt`,
      `--cluster-cidr=${podNetwork}`,
      `--service-cluster-ip-range=${serviceNetwork}`,
      '--allocate-node-cidrs=false',
      '--use-service-account-credentials',
      '--leader-elect=false',
      '--node-monitor-grace-period=15s',
      '--kube-api-qps=500',
      '--kube-api-burst=1000',
    ],
    scheduler: [
      programs['kube-scheduler'],
      `--kubeconfig=${join(kubeconfigs, 'scheduler')}`,
      '--leader-elect=false',
      '--kube-api-qps=500',
      '--kube-api-burst=1000',
    ],
    coredns: [programs.coredns, '-conf', join(folder, 'Corefile')],
  };
}

/** Starts the control plane's programs and returns when the API server is ready. */
export async function startControlPlane(
  layout: Layout,
  state: ClusterState,
  programs: Programs,
  cgroups: Cgroups,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { controlPlane } = addressesOf(state.network);
  await mkdir(layout.logs, { recursive: true });
  await writeFile(join(layout.folder, 'audit-policy.yaml'), auditPolicy);
  await writeFile(join(layout.folder, 'Corefile'), corefile(join(layout.kubeconfigs, 'coredns'), controlPlane));
  const start = (name: ControlPlaneProgram) => startProgram(name, layout, state, programs, cgroups);
  await start('etcd');
  await start('apiserver');
  await waitUntilApiServerReady(layout, programs, signal);
  await applyAddons(layout, state, programs);
  for (const name of ['controller-manager', 'scheduler', 'coredns'] as const) await start(name);
}

/** Starts a program of the control plane with additional arguments. Does nothing if the program runs. */
export async function startProgram(
  name: ControlPlaneProgram,
  layout: Layout,
  state: ClusterState,
  programs: Programs,
  cgroups: Cgroups,
  flags: readonly string[] = [],
): Promise<void> {
  const cgroup = controlPlaneCgroup(layout, name);
  if ((await processesIn(cgroups, cgroup)).length > 0) return;
  await makeCgroup(cgroups, cgroup);
  await startDaemon(cgroups, {
    cgroup,
    namespace: controlPlaneNamespace(layout),
    logFile: join(layout.logs, `${name}.log`),
    command: [...commands(layout, state, programs)[name], ...(state.flags[name] ?? []), ...flags],
  });
}

const readyTimeoutMs = 120_000;

/** Waits until the API server is ready. @throws ClusterError after two minutes */
export async function waitUntilApiServerReady(
  layout: Layout,
  programs: Programs,
  signal: AbortSignal | undefined,
): Promise<void> {
  const problem = `the API server is not ready: see ${layout.logs}/apiserver.log`;
  const findProblem = async () => ((await isApiServerReady(layout, programs)) ? undefined : problem);
  await pollUntilSolved(findProblem, { timeoutMs: readyTimeoutMs, signal });
}

/** Returns whether the API server responds and its caches have synced. */
export async function isApiServerReady(layout: Layout, programs: Pick<Programs, 'kubectl'>): Promise<boolean> {
  return kubectl(layout, programs, ['get', '--raw=/readyz', '--request-timeout=5s']).then(
    (answer) => answer === 'ok',
    () => false,
  );
}

/** Applies the DNS Service, the permissions of the API server's kubelet client, and the volume driver's manifest. */
async function applyAddons(layout: Layout, state: ClusterState, programs: Programs): Promise<void> {
  const storage = join(import.meta.dirname, '../programs/extras/volume-driver/manifest.yaml');
  const files = ['--filename=-', `--filename=${storage}`];
  const input = addons(addressesOf(state.network).controlPlane);
  await kubectl(layout, programs, ['apply', '--server-side', ...files], input);
}

/** CoreDNS does not run in a pod, so its Service has an EndpointSlice with its address. */
const addons = (dnsAddress: string): string => `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: apiserver-kubelet-client}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:kubelet-api-admin'}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kube-apiserver-kubelet-client}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: coredns}
rules:
  - {apiGroups: [''], resources: [services, pods, namespaces], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: coredns}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: 'system:coredns'}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: ${dnsServiceIp}
  ports:
    - {name: dns, protocol: UDP, port: 53}
    - {name: dns-tcp, protocol: TCP, port: 53}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kube-dns
  namespace: kube-system
  labels: {kubernetes.io/service-name: kube-dns}
addressType: IPv4
endpoints: [{addresses: [${dnsAddress}]}]
ports:
  - {name: dns, protocol: UDP, port: 53}
  - {name: dns-tcp, protocol: TCP, port: 53}
`;
