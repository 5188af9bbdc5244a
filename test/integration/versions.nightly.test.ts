import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { findCondition } from '@echoperator/runtime';
import { CronJob, Job, Lease, Pod, StatefulSet } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { execa } from 'execa';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { jobsCreated, operatorWrites } from '../../testkit/operator-writes.ts';
import { PetStoreProcess } from '../../testkit/pet-store-process.ts';
import { bundleOperatorOf, type ShippedPrograms } from '../../testkit/shipped-program.ts';
import { customManifest } from '../../testkit/with-reason.ts';
import { PetWorld } from './environment/pet-world.ts';
import { PostgresWorld, writerRole } from './environment/postgres-world.ts';

/**
 * The version beside today's: as it was before the last commit that changed it, unless PREVIOUS_REVISION names another.
 */
async function previousRevision(): Promise<string> {
  const { PREVIOUS_REVISION: named } = process.env;
  if (named !== undefined) return named;
  const { stdout } = await execa('git', ['log', '--format=%H', '--max-count=2', '--', 'src', 'packages'], {
    cwd: repository,
  });
  const [, before] = stdout.split('\n');
  if (before === undefined) throw new Error('no commit but the last one has src/: fetch the whole history');
  return before;
}

const repository = join(import.meta.dirname, '../..');

/** The two Services of a namespace's BookStores have names of their own. */
const shop = (name: string, tag: string): BookStore['spec'] => ({
  bookApp: { repository: 'example.com/app', replicas: 1, serviceName: `${name}-app` },
  bookDB: { repository: 'example.com/db', tag, dbSize: '1Gi', serviceName: `${name}-db` },
});

const rounds = 8;
const eachRound = 5;
/** The limit for one round, in milliseconds. */
const roundMs = 60_000;

test(
  'two versions that lead in turn, by handover or kill, lose nothing and create nothing twice',
  async () => {
    await using resources = new AsyncDisposableStack();
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'versions-'));
    resources.defer(() => rm(folder, { recursive: true, force: true }));
    const versions = {
      today: undefined,
      before: await bundleOperatorOf(await previousRevision(), folder),
    } satisfies Record<string, ShippedPrograms | undefined>;
    type Version = keyof typeof versions;
    const store = await PetStoreProcess.start();
    resources.defer(async () => void (await store.stop()));
    const pets = resources.use(await PetWorld.start(store.port));
    const rows = resources.use(await PostgresWorld.start());
    const tables = ['a', 'b'];
    for (const table of tables) await rows.createTable(table);
    const { cluster, namespace, client } = rows;
    const { host, port, caFile } = rows.database;
    const settings = {
      ...writerRole,
      CONTROLLERS: 'echo,scheduledEcho,podSet,bookStore,pet,postgresWriter',
      WATCH_NAMESPACES: `${namespace},${pets.namespace}`,
      PETSTORE_ADDRESS: store.address,
      PSQL_HOST: host,
      PSQL_PORT: String(port),
      PSQL_SSLROOTCERT: caFile,
      NAMESPACE: namespace,
      HA_ENABLED: 'true',
      HA_LEASE_DURATION_SECONDS: '2',
      HA_RENEW_DEADLINE_SECONDS: '1.2',
      HA_RETRY_PERIOD_SECONDS: '0.3',
    };
    const running = new Map<Version, OperatorProcess>();
    resources.defer(async () => {
      for (const operator of running.values()) await operator.stop('SIGKILL');
    });
    const start = async (version: Version): Promise<void> => {
      const own = { ...settings, HA_NODE_ID: version };
      running.set(version, await OperatorProcess.start(cluster.kubeconfig, own, versions[version]));
    };
    const leads = (version: Version): Promise<unknown> =>
      eventually(`${version} leads`, async () => {
        const { spec } = await client.get(Lease, { namespace, name: 'echoperator' });
        return spec?.holderIdentity?.startsWith(version);
      });

    await start('today');
    await leads('today');
    await start('before');
    let [leader, standby]: [Version, Version] = ['today', 'before'];
    const echos: string[] = [];

    /** Makes some of each kind, and changes those of the round before. */
    const change = async (round: number): Promise<void> => {
      const names = Array.from({ length: eachRound }, (_, index) => `each-${round}-${index}`);
      const former = Array.from({ length: eachRound }, (_, index) => `each-${round - 1}-${index}`);
      echos.push(...names);
      const every = names.flatMap((name, index) => [
        client.create(Echo, customManifest({ name, namespace }, { message: name })),
        // Earlier versions name the CronJob so too, and an Echo of the name of a CronJob waits.
        client.create(
          ScheduledEcho,
          customManifest({ name: `scheduled-${name}`, namespace }, { message: name, schedule: '@yearly' }),
        ),
        client.create(PodSet, customManifest({ name, namespace }, { replicas: 1 + (index % 2) })),
        client.create(BookStore, customManifest({ name, namespace }, shop(name, 'first'))),
        rows.apply({ name, namespace }, { table: 'a', name, age: round, country: 'Peru' }),
        pets.apply(name, { name, type: 'dog', birthday: '2021-04-01T00:00:00Z' }),
      ]);
      const changes = round === 0 ? [] : former.flatMap((name, index) => changesOf(name, index));
      await Promise.all([...every, ...changes]);
    };
    const changesOf = (name: string, index: number): readonly Promise<unknown>[] => {
      if (index === 0) return [rows.delete({ name, namespace }), pets.remove(name)];
      const body = { spec: { replicas: 2 } };
      return [
        client.patch(PodSet, { name, namespace }, { type: 'merge', body }),
        client.patch(BookStore, { name, namespace }, { type: 'merge', body: { spec: shop(name, 'second') } }),
        rows.apply({ name, namespace }, { table: 'b', name: `${name} moved`, age: 1, country: 'Chile' }),
        pets.apply(name, { name: `${name} renamed`, type: 'cat', birthday: '2021-04-01T00:00:00Z' }),
      ];
    };

    for (let round = 0; round < rounds; round++) {
      const changing = change(round);
      const former = running.get(leader);
      // In the middle of it: half of the times in order.
      const isOfThisRound = ({ age }: { readonly age: number }): boolean => age === round;
      await eventually('some of it is done', async () => (await rows.rows('a', namespace)).some(isOfThisRound));
      await former?.stop(round % 2 === 0 ? 'SIGTERM' : 'SIGKILL');
      await changing;
      await leads(standby);
      await start(leader);
      [leader, standby] = [standby, leader];
    }

    await eventually(
      'every Echo has its Job',
      async () => {
        const { items } = await client.list(Echo, { namespace });
        return items.every(({ status }) =>
          ['Printing', 'Printed'].includes(findCondition(status?.conditions, 'Ready')?.reason ?? ''),
        );
      },
      roundMs,
    );
    await eventually(
      'every PodSet has its pods',
      async () => {
        const { items } = await client.list(PodSet, { namespace });
        return items.every(({ spec, status }) => status?.podNames?.length === spec.replicas);
      },
      roundMs,
    );
    await eventually(
      'every ScheduledEcho has its CronJob',
      async () => {
        const { items } = await client.list(ScheduledEcho, { namespace });
        return items.every(({ status }) => status?.cronJobName !== undefined);
      },
      roundMs,
    );
    await rows.settled(namespace, tables);
    await pets.settled();

    // No pods run here, but the API server must accept the specs of both versions.
    await eventually(
      'every BookStore has its StatefulSet, with the image of its spec',
      async () => {
        const stores = (await client.list(BookStore, { namespace })).items;
        const sets = (await client.list(StatefulSet, { namespace })).items;
        const images = new Map(
          sets.map(({ metadata, spec }) => [metadata.name, spec?.template.spec?.containers[0]?.image]),
        );
        return stores.every(
          ({ metadata, spec, status }) =>
            images.get(`${metadata.name}-db`) === `example.com/db:${spec.bookDB.tag}` &&
            status?.observedGeneration === metadata.generation,
        );
      },
      roundMs,
    );

    const jobs = (await client.list(Job, { namespace })).items.map(({ metadata }) => metadata.name);
    expect(jobs.toSorted()).toEqual(echos.toSorted());
    const created = jobsCreated(await operatorWrites(cluster.auditLog, namespace));
    expect([...created].filter(([, times]) => times > 1)).toEqual([]);
    expect((await client.list(CronJob, { namespace })).items).toHaveLength(echos.length);
    const sets = (await client.list(PodSet, { namespace })).items;
    const owned = (await client.list(Pod, { namespace })).items.filter(
      ({ metadata }) => metadata.ownerReferences?.[0]?.kind === 'PodSet' && metadata.deletionTimestamp === undefined,
    );
    expect(owned).toHaveLength(sets.reduce((total, { spec }) => total + spec.replicas, 0));
  },
  rounds * roundMs,
);
