import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { withExclusiveLock } from '../exclusive-lock.ts';
import { addressesOf, serviceNetwork } from './addresses.ts';
import { ClusterError } from './errors.ts';
import { clustersFolder, controlPlaneNamespace, type Layout, nodeLayout, nodeNames } from './layout.ts';

interface InterfaceAddresses {
  readonly addr_info: readonly { readonly local: string }[];
}

/** Finds a network that no link of this host uses. The search starts at a number that follows from the cluster's id. */
async function freeNetwork(layout: Layout): Promise<number> {
  const { stdout } = await execa('ip', ['-json', '-4', 'address']);
  const taken = new Set(
    (JSON.parse(stdout) as InterfaceAddresses[]).flatMap(({ addr_info }) =>
      addr_info.map(({ local }) => local.split('.').slice(0, 3).join('.')),
    ),
  );
  const first = Number.parseInt(layout.id, 16) % 256;
  for (let i = 0; i < 256; i += 1) {
    const network = (first + i) % 256;
    if (!taken.has(`10.213.${network}`)) return network;
  }
  throw new ClusterError('all networks from 10.213.0.0/24 to 10.213.255.0/24 are in use on this machine');
}

/**
 * Creates a network namespace for the control plane and one for each node, connected by a bridge in the first. The host
 * has one link to that bridge. There is no default route, so the cluster cannot reach other networks.
 *
 * @returns the number of the cluster's network, see ClusterState
 */
export function makeNetwork(layout: Layout, nodes: number, signal: AbortSignal | undefined): Promise<number> {
  return withNetworkLock(layout, signal, async () => {
    const network = await freeNetwork(layout);
    await makeNetworkOf(layout, nodes, network);
    return network;
  });
}

/** Without a lock, two clusters that start at the same time would find the same free network. */
function withNetworkLock<T>(layout: Layout, signal: AbortSignal | undefined, action: () => Promise<T>): Promise<T> {
  const lockFile = join(clustersFolder(), 'network.lock');
  return withExclusiveLock({ lockFile, purpose: `cluster ${layout.name}: network`, signal }, action);
}

async function makeNetworkOf(layout: Layout, nodes: number, network: number): Promise<void> {
  const addresses = addressesOf(network);
  const hub = controlPlaneNamespace(layout);
  await mkdir(layout.namespaces, { recursive: true });
  await makeNamespace(hub);
  await ipIn(hub, 'link add br0 type bridge');
  await ipIn(hub, `address add ${addresses.controlPlane}/24 dev br0`);
  await ipIn(hub, 'link set br0 up');

  await ip(`link add ${layout.hostLink} type veth peer name host netns ${hub}`);
  await ipIn(hub, 'link set host master br0 up');
  await ip(`address add ${addresses.host}/24 dev ${layout.hostLink}`);
  await ip(`link set ${layout.hostLink} up`);

  for (const [index, name] of nodeNames(nodes).entries()) {
    const { namespace } = nodeLayout(layout, name);
    await makeNamespace(namespace);
    await ipIn(hub, `link add ${name} type veth peer name eth0 netns ${namespace}`);
    await ipIn(hub, `link set ${name} master br0 up`);
    await ipIn(hub, `route add ${addresses.pods(index)} via ${addresses.node(index)}`);
    await ipIn(namespace, `address add ${addresses.node(index)}/24 dev eth0`);
    await ipIn(namespace, 'link set eth0 up');
    // kube-proxy rewrites these addresses before routing, but the kernel rejects addresses without a route even
    // earlier.
    await ipIn(namespace, `route add ${serviceNetwork} dev eth0`);
    for (const other of nodeNames(nodes).keys()) {
      if (other !== index) await ipIn(namespace, `route add ${addresses.pods(other)} via ${addresses.node(other)}`);
    }
    await execa('nsenter', [`--net=${namespace}`, 'sysctl', '--quiet', '--write', 'net.ipv4.ip_forward=1']);
  }
}

/** Connects a node to the bridge or disconnects it. */
export async function setNodeLink(layout: Layout, node: string, state: 'up' | 'down'): Promise<void> {
  await ipIn(controlPlaneNamespace(layout), `link set ${node} ${state}`);
}

/** Removes whatever exists of a network made by {@link makeNetwork}. */
export async function removeNetwork(layout: Layout): Promise<void> {
  await withNetworkLock(layout, undefined, async () => {
    await execa('ip', ['link', 'delete', layout.hostLink], { reject: false });
    for (const name of await readdir(layout.namespaces).catch(() => [])) {
      const path = join(layout.namespaces, name);
      await execa('umount', [path], { reject: false });
      await rm(path);
    }
  });
}

/**
 * Creates a namespace that exists while it is mounted on its file. `ip netns` would leave a mount in /run/netns behind.
 */
async function makeNamespace(path: string): Promise<void> {
  await writeFile(path, '');
  await execa('unshare', [`--net=${path}`, 'true']);
  await ipIn(path, 'link set lo up');
}

async function ip(words: string): Promise<void> {
  await execa('ip', words.split(' '));
}

async function ipIn(namespace: string, words: string): Promise<void> {
  await execa('nsenter', [`--net=${namespace}`, 'ip', ...words.split(' ')]);
}
