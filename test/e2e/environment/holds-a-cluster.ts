/** A program that holds a cluster as a test run does, and is killed by cluster.test.ts. Its argument is the name. */
import { Cluster, removeClusterOnExit } from '../../../tools/cluster/index.ts';

const name = process.argv[2] ?? '';
await removeClusterOnExit(name);
await Cluster.up({ name, nodes: 1 });
process.stdout.write('up\n');
setInterval(() => {}, 60_000);
