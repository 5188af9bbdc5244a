/**
 * A program that keeps a cluster like a test run. cluster.nightly.test.ts kills it. Its argument is the cluster's name.
 */
import { Cluster, removeClusterOnExit } from '../../../tools/cluster/index.ts';

const name = process.argv[2] ?? '';
await removeClusterOnExit(name);
await Cluster.up({ name, nodes: 1 });
process.stdout.write('up\n');
setInterval(() => {}, 60_000);
