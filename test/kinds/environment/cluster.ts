import { E2eCluster } from '../../e2e/environment/cluster.ts';

/** The cluster of the run, and the namespaces that a test file makes on it. */

export let cluster: E2eCluster;
const namespaces: string[] = [];

export async function connect(): Promise<void> {
  cluster = await E2eCluster.connect();
}

/** A namespace that {@link deleteNamespaces} deletes. */
export async function namespace(labels?: Readonly<Record<string, string>>): Promise<string> {
  const name = await cluster.namespace(labels);
  namespaces.push(name);
  return name;
}

/** Deletes all namespaces made so far, and does not wait until they are gone. */
export async function deleteNamespaces(): Promise<void> {
  await Promise.all(namespaces.splice(0).map((name) => cluster.deleteNamespace(name)));
}
