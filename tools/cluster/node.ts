import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { addressesOf, dnsServiceIp, podNetwork } from './addresses.ts';
import { type Cgroups, killAll, makeCgroup, removeCgroup } from './cgroups.ts';
import { startDaemon } from './daemon.ts';
import { pauseImage } from './images.ts';
import { type Layout, type NodeLayout, nodeLayout, nodeNames, type perNodeFolders } from './layout.ts';
import { pollUntilSolved } from './poll-until-solved.ts';
import type { Programs } from './programs.ts';
import type { ClusterState } from './state.ts';
import { waitUntilVolumesDetached } from './volumes.ts';

/**
 * The values that the kubelet would write to these sysctls. The host's kernel does not separate them by namespace, so
 * the node sees files with these values instead.
 */
const kubeletSysctls = {
  'vm/overcommit_memory': 1,
  'vm/panic_on_oom': 0,
  'kernel/panic': 10,
  'kernel/panic_on_oops': 1,
  'kernel/keys/root_maxkeys': 1_000_000,
  'kernel/keys/root_maxbytes': 25_000_000,
} as const;

/** Debian's folder of the CNI plugins. */
const cniPlugins = '/usr/lib/cni';

/**
 * Starts containerd, kubelet, kube-proxy and the volume driver in the node's network, mount and process namespaces.
 * Returns when containerd responds.
 */
export async function startNode(
  layout: Layout,
  state: ClusterState,
  name: string,
  programs: Programs,
  cgroups: Cgroups,
  signal: AbortSignal | undefined,
): Promise<void> {
  const node = nodeLayout(layout, name);
  await rm(node.run, { recursive: true, force: true });
  for (const folder of [node.run, node.varLib, node.varLog, node.volumes, `${node.varLib}/kubelet`]) {
    await mkdir(folder, { recursive: true });
  }
  for (const group of [node.cgroup, node.systemCgroup]) await makeCgroup(cgroups, group);
  await writeFiles(layout, state, node, cgroups);
  await writeFile(join(node.folder, 'start.sh'), startScript(layout, node, programs));
  await startDaemon(cgroups, {
    cgroup: node.systemCgroup,
    namespace: node.namespace,
    logFile: join(layout.logs, `${name}.log`),
    // When unshare dies, --kill-child kills the first process of the PID namespace, and with it all of the node's
    // processes.
    command: [
      ...(['unshare', '--uts', '--mount', '--propagation=private', '--mount-proc'] as const),
      ...['--pid', '--fork', '--kill-child', 'bash', join(node.folder, 'start.sh')],
    ],
  });
  await waitForContainerd(layout, node, programs, signal);
}

/** Kills all of a node's processes without notice, like a power failure. Its volumes keep their data. */
export async function killNode(layout: Layout, name: string, cgroups: Cgroups): Promise<void> {
  const node = nodeLayout(layout, name);
  for (const group of [node.systemCgroup, node.cgroup]) {
    await killAll(cgroups, group);
    await removeCgroup(cgroups, group);
  }
  await waitUntilVolumesDetached(node.volumes);
  // A leftover containerd socket would make the node look as if it were running.
  await rm(node.run, { recursive: true, force: true });
}

const containerdTimeoutMs = 90_000;

async function waitForContainerd(
  layout: Layout,
  node: NodeLayout,
  programs: Programs,
  signal: AbortSignal | undefined,
): Promise<void> {
  const problem = `containerd of ${node.name} does not answer: see ${layout.logs}/${node.name}*.log`;
  const findProblem = async () => {
    const { failed } = await execa(programs.ctr, ['--address', node.containerdSocket, 'version'], { reject: false });
    return failed ? problem : undefined;
  };
  await pollUntilSolved(findProblem, { timeoutMs: containerdTimeoutMs, signal });
}

/** Imports a docker-archive or an OCI archive into a running node. */
export async function importImage(node: NodeLayout, archive: string, programs: Programs): Promise<void> {
  await execa(programs.ctr, ['--address', node.containerdSocket, '--namespace=k8s.io', 'images', 'import', archive]);
}

/** containerd reads this folder at each pull. */
const registriesFolder = (node: NodeLayout): string => join(node.folder, 'registries');

/** Lets a node pull from a registry by HTTP, for which containerd expects HTTPS. @param address host and port */
export async function allowRegistryWithoutTls(node: NodeLayout, address: string): Promise<void> {
  const folder = join(registriesFolder(node), address);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'hosts.toml'), `server = "http://${address}"\n`);
}

async function writeFiles(layout: Layout, state: ClusterState, node: NodeLayout, cgroups: Cgroups): Promise<void> {
  const index = nodeNames(state.nodes).indexOf(node.name);
  const addresses = addressesOf(state.network);
  const files: Readonly<Record<string, string>> = {
    'containerd.toml': containerdConfig(node),
    'cni/10-pods.conflist': JSON.stringify(podNetworkConfig(addresses.pods(index))),
    'kubelet.yaml': stringify(kubeletConfig(layout, node, cgroups)),
    'proxy.yaml': stringify(proxyConfig(layout, node)),
    ...Object.fromEntries(Object.entries(kubeletSysctls).map(([path, value]) => [`sysctls/${path}`, `${value}\n`])),
  };
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(node.folder, path)), { recursive: true });
    await writeFile(join(node.folder, path), content);
  }
  await writeFile(join(node.folder, 'address'), addresses.node(index));
}

const containerdConfig = (node: NodeLayout): string => `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "/run/containerd/containerd.sock"

# The default is a folder in the host's /opt.
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "${registriesFolder(node)}"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "${pauseImage}"

[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE a process cannot lower its oom_score_adj, and no sandbox would start.
  restrict_oom_score_adj = true
  # containerd's profile would stay loaded in the host's kernel.
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["${cniPlugins}"]
    conf_dir = "${join(node.folder, 'cni')}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      # Found on the PATH: Debian's runc is in /usr/sbin, Docker's in /usr/bin.
      BinaryName = "runc"
      SystemdCgroup = false
`;

const podNetworkConfig = (subnet: string): object => ({
  cniVersion: '1.0.0',
  name: 'pods',
  plugins: [
    {
      // The node routes every packet, so that kube-proxy's rules apply. On a bridge, replies between pods of one node
      // would bypass the rules unless the host has loaded br_netfilter.
      type: 'ptp',
      // The folder is below /run, because a killed node has no pods, so all addresses are free when it starts.
      ipam: { type: 'host-local', dataDir: '/run/cni', ranges: [[{ subnet }]], routes: [{ dst: '0.0.0.0/0' }] },
    },
    { type: 'portmap', capabilities: { portMappings: true } },
  ],
});

const kubeletConfig = ({ pki }: Layout, node: NodeLayout, cgroups: Cgroups): object => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  authentication: {
    x509: { clientCAFile: join(pki, 'ca.crt') },
    webhook: { enabled: true },
    anonymous: { enabled: false },
  },
  authorization: { mode: 'Webhook' },
  cgroupDriver: 'cgroupfs',
  cgroupRoot: `/${node.cgroup}`,
  ...(cgroups.version === 1 && { failCgroupV1: false }),
  failSwapOn: false,
  containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
  tlsCertFile: join(pki, `${node.name}.crt`),
  tlsPrivateKeyFile: join(pki, `${node.name}.key`),
  clusterDNS: [dnsServiceIp],
  clusterDomain: 'cluster.local',
  resolvConf: '',
  // A full disk on the host must not evict pods.
  evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '0%', 'imagefs.available': '0%' },
  imageGCHighThresholdPercent: 100,
  enforceNodeAllocatable: [],
  nodeStatusUpdateFrequency: '5s',
  // The kubelet notices a grown volume when it syncs the pod, by default every minute.
  syncFrequency: '10s',
  registryPullQPS: 0,
  kubeAPIQPS: 200,
  kubeAPIBurst: 400,
  maxPods: 250,
});

const proxyConfig = ({ kubeconfigs }: Layout, node: NodeLayout): object => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'nftables',
  clientConnection: { kubeconfig: join(kubeconfigs, 'proxy') },
  clusterCIDR: podNetwork,
  hostnameOverride: node.name,
  // Zero leaves the host's connection tracking unchanged.
  conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
});

/** The script of the node's first process, which also reaps the orphans of containerd's shims. */
function startScript(layout: Layout, node: NodeLayout, programs: Programs): string {
  const log = (name: string) => `>> '${layout.logs}/${node.name}-${name}.log' 2>&1 &`;
  const kubeconfig = (name: string) => `'--kubeconfig=${join(layout.kubeconfigs, name)}'`;
  const own: Record<(typeof perNodeFolders)[number], string> = {
    '/run': node.run,
    '/var/lib': node.varLib,
    '/var/log': node.varLog,
  };
  return `set -e
echo ${node.name} > /proc/sys/kernel/hostname
${Object.entries(own)
  .map(([path, folder]) => `mount --bind '${folder}' ${path}`)
  .join('\n')}
${Object.keys(kubeletSysctls)
  .map((path) => `mount --bind '${node.folder}/sysctls/${path}' /proc/sys/${path}`)
  .join('\n')}
# Pods must see volumes that the driver mounts later.
mount --make-rshared /
export PATH='${dirname(programs.containerd)}':$PATH
'${programs.containerd}' --config='${node.folder}/containerd.toml' ${log('containerd')}
until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done
'${programs['kube-proxy']}' --config='${node.folder}/proxy.yaml' ${log('proxy')}
# Restart these like systemd does. The kubelet exits while containerd restores old containers and does not respond yet.
until '${programs.kubelet}' ${kubeconfig(node.name)} --config='${node.folder}/kubelet.yaml' --hostname-override=${node.name} \\
  --node-ip="$(cat '${node.folder}/address')" --root-dir=/var/lib/kubelet; do sleep 0.2; done ${log('kubelet')}
until '${programs['volume-driver']}' ${kubeconfig('volume-driver')} --node-name=${node.name} --root='${node.volumes}'; do
  sleep 0.2
done ${log('volume-driver')}
wait
`;
}
