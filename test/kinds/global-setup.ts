import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildImage } from '../../tools/release/index.ts';
import { bookStoreImages } from '../e2e/environment/book-store-images.ts';
import { E2eCluster } from '../e2e/environment/cluster.ts';
import { Database } from '../e2e/environment/database.ts';
import { DocumentedSteps, documentedNamespace, valuesOfDisabledKinds } from '../e2e/environment/documented.ts';
import { postgresImage } from '../e2e/environment/postgres-image.ts';
import { Release } from '../e2e/environment/release.ts';
import { SharedCluster } from '../e2e/environment/shared-cluster.ts';

async function images(): Promise<readonly string[]> {
  const built = [buildImage(), buildImage({ image: 'petstore' })].map(async (image) => (await image).archive);
  return (await Promise.all([...built, postgresImage(), bookStoreImages()])).flat();
}

/** One release for all files: they run side by side. It has every controller, a pet store, and a database beside it. */
export default async function setUp(): Promise<void> {
  globalThis.kinds = await SharedCluster.up({ suite: 'kinds', nodes: 1, images });
  const cluster = await E2eCluster.connect();
  const release = Release.in(cluster, documentedNamespace);
  await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: release.namespace } });
  process.env.KINDS_RELEASE_NAMESPACE = release.namespace;
  await install(release, cluster);
}

/** Installs the release as the pages of the kinds have it that are off by default. */
async function install(release: Release, cluster: E2eCluster): Promise<void> {
  const [ofRows, ofPets] = [await DocumentedSteps.of('postgres-writer.md'), await DocumentedSteps.of('pet.md')];
  const folder = await mkdtemp(join(tmpdir(), 'kinds-database-'));
  try {
    const database = await Database.start(cluster, join(folder, 'ca.crt'));
    const createSecret = `kubectl --namespace ${release.namespace} create secret`;
    for (const command of [
      ...ofRows.commands(createSecret).slice(0, 1),
      ...ofPets.commands('openssl'),
      ...ofPets.commands(createSecret),
    ]) {
      await cluster.shell(command, folder);
    }
    const values = (await valuesOfDisabledKinds()).map((value) => value.replace('db.example', Database.host));
    await Promise.all([release.upgrade(values), database.ready().then(() => database.psql([], ofRows.sql))]);
  } finally {
    await rm(folder, { recursive: true });
  }
}
