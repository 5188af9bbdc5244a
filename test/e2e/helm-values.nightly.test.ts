import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { E2eCluster, echo, type HelmName } from './environment/cluster.ts';
import { Release } from './environment/release.ts';

const root = join(import.meta.dirname, '../..');

/** A test waits for replicas five times. */
const testMs = 400_000;

let cluster: E2eCluster;
let release: Release | undefined;
let namespaces: string[];

beforeEach(async () => {
  cluster = await E2eCluster.connect();
  namespaces = [];
});

afterEach(async () => {
  await release?.uninstall();
  for (const namespace of namespaces) await cluster.deleteNamespace(namespace);
});

/** Helm's flags for a release that has to serve the namespace of the objects. */
const settings: Readonly<Record<string, (watched: string) => readonly string[]>> = {
  // The file's image comes from a registry that is not here.
  original: () => [
    ...['--values', join(root, 'test/chart/original-values.yaml'), '--set', 'image.pullPolicy=IfNotPresent'],
    ...['--set', 'image.repository=ghcr.io/echoperator/echoperator'],
  ],
  minimal: () => ['--set', 'ha.enabled=false,monitoring.enabled=false'],
  hardened: () => ['--set', 'networkPolicy.enabled=true'],
  namespaced: (watched) => ['--skip-crds', '--set', `scope.namespaced=true,watchNamespaces={${watched}}`],
};

const helms: readonly HelmName[] = ['helm', 'helm4'];

describe.each(helms)('%s', (helm) => {
  test.each(Object.keys(settings))(
    'installs, upgrades, rolls back and uninstalls with the %s values, and the operator works',
    async (name) => {
      const security = name === 'hardened' ? { 'pod-security.kubernetes.io/enforce': 'restricted' } : {};
      const [home, watched] = [await cluster.namespace(security), await cluster.namespace(security)];
      namespaces.push(home, watched);
      if (name === 'namespaced') {
        await cluster.kubectl(['apply', '--server-side', '--force-conflicts', `--filename=${join(root, 'crds')}`]);
      }
      const isReady = (object: string) =>
        cluster.kubectl(['wait', '--for=condition=Ready', object, '--namespace', watched, '--timeout=90s']);
      const works = async (round: string): Promise<void> => {
        await cluster.apply(echo(round, watched, { message: round }));
        await cluster.apply({
          ...echo(round, watched, { message: round, schedule: '0 0 1 1 *' }),
          kind: 'ScheduledEcho',
        });
        await isReady(`echo/${round}`);
        expect(await cluster.logOf(round, watched)).toBe(`${round}\n`);
        await isReady(`scheduledecho/${round}`);
      };
      const flags = settings[name]?.(watched) ?? [];
      const installed = Release.in(cluster, home, helm);
      release = installed;
      await installed.upgrade(flags);
      await works('installed');
      expect(await installed.test()).toMatch(/Phase: +Succeeded/);
      await installed.upgrade([...flags, '--set', 'podAnnotations.upgraded=yes']);
      await works('upgraded');
      await installed.rollback();
      await works('rolled-back');

      await installed.uninstallAlone();
      await eventually('nothing of the release is left', async () => (await remains()).length === 0, 60_000).catch(
        async (cause: unknown) => {
          throw new Error(`after the uninstallation there are ${await remains()}`, { cause });
        },
      );
      const [echos, crds] = [await names('echos', watched), await names('crds', watched)];
      expect(echos).toHaveLength(3);
      expect(crds).toContain('customresourcedefinition.apiextensions.k8s.io/echos.mmontes.io');
    },
    testMs,
  );
});

const names = async (resources: string, namespace: string): Promise<readonly string[]> =>
  (await cluster.kubectl(['get', resources, '--namespace', namespace, '--output=name'])).split('\n').filter(Boolean);

/** The objects with the release's label, but not the CRDs and the pod of `helm test`: Helm keeps hooks that its test has run. */
async function remains(): Promise<readonly string[]> {
  const listed = await cluster.kubectl(['api-resources', '--verbs=list,delete', '--output=name']);
  const resources = listed.split('\n').filter((name) => name !== '' && !/^customresourcedefinitions|events/.test(name));
  const left = await cluster.kubectl([
    ...['get', resources.join(','), '--all-namespaces', '--output=name'],
    ...['--selector=app.kubernetes.io/instance=echoperator'],
  ]);
  return left.split('\n').filter((name) => name !== '' && !/^pod\/.*-test$/.test(name));
}
