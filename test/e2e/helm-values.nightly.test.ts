import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';

import { type ControllerName, controllerNames, kindEntries } from '../../src/kinds.ts';
import { controllers, kinds } from '../../src/operator.ts';
import { eventually } from '../../testkit/eventually.ts';
import { Cluster } from '../../tools/cluster/index.ts';
import { buildImage } from '../../tools/release/index.ts';
import { kindPlans } from '../plans/index.ts';
import { bookStoreImages } from './environment/book-store-images.ts';
import { E2eCluster, type HelmName } from './environment/cluster.ts';
import { Database } from './environment/database.ts';
import { DocumentedSteps, documentedNamespace, valuesOfDisabledKinds } from './environment/documented.ts';
import { postgresImage } from './environment/postgres-image.ts';
import { Release } from './environment/release.ts';

const root = join(import.meta.dirname, '../..');

/** A test waits for replicas five times, and for each kind three times. */
const testMs = 600_000;

let cluster: E2eCluster;
let release: Release | undefined;
let namespaces: string[];
/** For certificates. */
let folder: string;

beforeAll(async () => {
  cluster = await E2eCluster.connect();
  folder = await mkdtemp(join(tmpdir(), 'helm-values-'));
  const nodes = await Cluster.find('e2e');
  const { archive } = await buildImage({ image: 'petstore' });
  for (const image of [archive, await postgresImage(), ...(await bookStoreImages())]) await nodes.loadImage(image);
  const database = await Database.start(cluster, join(folder, 'ca.crt'));
  await database.ready();
  await database.psql([], (await DocumentedSteps.of('postgres-writer.md')).sql);
}, testMs);

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
  await cluster.deleteNamespace('database');
});

beforeEach(() => {
  namespaces = [];
});

afterEach(async () => {
  // Also after a failure.
  for (const namespace of namespaces) await deleteWhatNeedsTheOperator(namespace);
  await release?.uninstall();
  for (const namespace of namespaces) await cluster.deleteNamespace(namespace);
});

const deleteWhatNeedsTheOperator = (namespace: string) =>
  cluster.kubectl(['delete', 'pets,postgreswriters', '--all', '--namespace', namespace, '--timeout=60s']);

type Settings = {
  /** Helm's flags for a release that has to serve the namespace of the objects. */
  readonly flags: (watched: string) => readonly string[];
  /** Also switches on every kind, as the kinds' pages say. */
  readonly everyKind?: true;
};

const valuesOf = (name: string): readonly string[] => ['--values', join(root, `examples/values/${name}.yaml`)];

const settings: Readonly<Record<string, Settings>> = {
  original: {
    // The file's image comes from a registry that is not here.
    flags: () => [
      ...[...valuesOf('original'), '--set', 'image.pullPolicy=IfNotPresent'],
      ...['--set', 'image.repository=ghcr.io/echoperator/echoperator'],
    ],
  },
  minimal: { flags: () => valuesOf('minimal') },
  hardened: {
    flags: (watched) => [...valuesOf('hardened'), '--set', `watchNamespaces={${watched}}`],
    everyKind: true,
  },
  namespaced: {
    flags: (watched) => [...valuesOf('namespaced'), '--set', `watchNamespaces={${watched}}`],
    everyKind: true,
  },
};

/** Creates the Secrets of the database and of the pet store. @returns the flags that switch on every kind */
async function switchOn(home: string): Promise<readonly string[]> {
  const [ofRows, ofPets] = [await DocumentedSteps.of('postgres-writer.md'), await DocumentedSteps.of('pet.md')];
  const createSecret = `kubectl --namespace ${documentedNamespace} create secret`;
  for (const command of [
    ...ofRows.commands(createSecret).slice(0, 1),
    ...ofPets.commands('openssl'),
    ...ofPets.commands(createSecret),
  ]) {
    const here = command
      .replaceAll(`--namespace ${documentedNamespace}`, `--namespace ${home}`)
      .replaceAll(`.${documentedNamespace}.svc`, `.${home}.svc`);
    await cluster.shell(here, folder);
  }
  return (await valuesOfDisabledKinds()).map((value) => value.replace('db.example', Database.host));
}

/**
 * Specs that differ from the examples of {@link kindPlans}: their text is the message, and the name of the pet and of
 * the row.
 */
const specs: Partial<Readonly<Record<ControllerName, (text: string) => object>>> = {
  echo: (message) => ({ message }),
  scheduledEcho: (message) => ({ message, schedule: '0 0 1 1 *' }),
  podSet: () => ({ replicas: 1 }),
  bookStore: () => ({
    bookApp: { repository: 'akash125/pyapp', imagePullPolicy: 'IfNotPresent', port: 80, targetPort: 3000 },
    bookDB: { repository: 'mongo', imagePullPolicy: 'IfNotPresent', port: 27017, dbSize: '128Mi' },
  }),
  pet: (name) => ({ name, type: 'dog', birthday: '2021-04-01T00:00:00Z' }),
  postgresWriter: (name) => ({ table: 'students', name, age: 20, country: 'Spain' }),
};

/**
 * The name of the object of a round. A namespace has one BookStore, because the tutorial's names its database's
 * Service.
 */
const nameOf = (kind: string, round: string): string => (kind === 'BookStore' ? 'shop' : round);

const helms: readonly HelmName[] = ['helm', 'helm4'];

describe.each(helms)('%s', (helm) => {
  test.each(Object.keys(settings))(
    'installs, upgrades, rolls back and uninstalls with the %s values, and the operator works',
    async (name) => {
      const { flags, everyKind } = settings[name] ?? { flags: () => [] };
      const security = name === 'hardened' ? { 'pod-security.kubernetes.io/enforce': 'restricted' } : {};
      const [home, watched] = [await cluster.namespace(security), await cluster.namespace(security)];
      namespaces.push(home, watched);
      if (name === 'namespaced') {
        await cluster.kubectl(['apply', '--server-side', '--force-conflicts', `--filename=${join(root, 'crds')}`]);
      }
      const values = [...flags(watched), ...(everyKind === undefined ? [] : await switchOn(home))];
      const enabled = controllerNames
        .filter((controller) => everyKind || kindEntries[controller].runsByDefault)
        .map((controller) => [controller, controllers[controller].kind] as const);
      const works = async (round: string): Promise<void> => {
        for (const [controller, { kind, group, version }] of enabled) {
          const spec = specs[controller]?.(round) ?? kindPlans[controller].example;
          const metadata = { name: nameOf(kind, round), namespace: watched };
          await cluster.apply({ apiVersion: `${group}/${version}`, kind, metadata, spec });
        }
        for (const [, { kind }] of enabled) {
          const object = `${kind.toLowerCase()}/${nameOf(kind, round)}`;
          await cluster.kubectl([
            ...['wait', '--for=condition=Ready', object, '--namespace', watched, '--timeout=120s'],
          ]);
        }
        expect(await cluster.logOf(round, watched)).toBe(`${round}\n`);
      };
      const installed = Release.in(cluster, home, helm);
      release = installed;
      await installed.upgrade(values);
      await works('installed');
      expect(await installed.test()).toMatch(/Phase: +Succeeded/);
      await installed.upgrade([...values, '--set', 'podAnnotations.upgraded=yes']);
      await works('upgraded');
      await installed.rollback();
      await works('rolled-back');

      if (everyKind) {
        await deleteWhatNeedsTheOperator(watched);
      }
      await installed.uninstallAlone();
      const fullname = name === 'original' ? 'echoes' : 'echoperator';
      const documented = documentedRemains(fullname, everyKind === true);
      await eventually(
        'what the docs say is left',
        async () => isDeepStrictEqual(await remains(fullname), documented),
        60_000,
      ).catch(async () => expect(await remains(fullname)).toEqual(documented));
      for (const [, { kind, plural, group }] of enabled) {
        const left = kind === 'Pet' || kind === 'PostgresWriter' ? 0 : kind === 'BookStore' ? 1 : 3;
        expect([kind, (await names(`${plural}.${group}`, watched)).length]).toEqual([kind, left]);
      }
      const crds = await names('crds', watched);
      for (const { plural, group } of kinds)
        expect(crds).toContain(`customresourcedefinition.apiextensions.k8s.io/${plural}.${group}`);
    },
    testMs,
  );
});

const names = async (resources: string, namespace: string): Promise<readonly string[]> =>
  (await cluster.kubectl(['get', resources, '--namespace', namespace, '--output=name'])).split('\n').filter(Boolean);

/**
 * What an uninstallation leaves besides the CRDs (docs/operations.md, the chart's README): the Lease, the pod of `helm
 * test`, and with a pet store its claim, which holds all pets.
 */
const documentedRemains = (fullname: string, hasPetStore: boolean): readonly string[] => [
  `lease.coordination.k8s.io/${fullname}`,
  ...(hasPetStore ? [`persistentvolumeclaim/data-${fullname}-petstore-0`] : []),
  `pod/${fullname}-test`,
];

/** The objects with the release's label, and its Lease, which the operator creates without labels. */
async function remains(fullname: string): Promise<readonly string[]> {
  const listed = await cluster.kubectl(['api-resources', '--verbs=list,delete', '--output=name']);
  const resources = listed.split('\n').filter((name) => name !== '' && !/^customresourcedefinitions|events/.test(name));
  const found = async (what: string, selector: string) =>
    (await cluster.kubectl(['get', what, '--all-namespaces', '--output=name', selector])).split('\n').filter(Boolean);
  const labelled = await found(resources.join(','), '--selector=app.kubernetes.io/instance=echoperator');
  const leases = await found('leases', `--field-selector=metadata.name=${fullname}`);
  return [...labelled, ...leases].sort();
}
