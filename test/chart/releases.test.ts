import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Lease, NetworkPolicy, StatefulSet, SubjectAccessReview } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { parse } from 'yaml';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { controllerNames } from '../../src/kinds.ts';
import { eventually } from '../../testkit/eventually.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import {
  alone,
  cluster,
  controllersOf,
  earlierChart,
  first,
  helmOf,
  highlyAvailable,
  off,
  originalChart,
  refusal,
  second,
  setUp,
  state,
  tearDown,
  third,
  uninstallAll,
  upgrade,
} from './environment/releases.ts';
import { HelmError, helmNames } from './helm.ts';

beforeAll(() => setUp());
afterEach(() => uninstallAll());
afterAll(() => tearDown());

describe.each(helmNames)('ha.enabled, by %s', (name) => {
  test('can be switched off and on by an upgrade, and by a rollback', async () => {
    const helm = await helmOf(name);
    await upgrade(helm, { namespace: first });
    expect(await state(first)).toEqual(highlyAvailable);
    await upgrade(helm, { namespace: first, values: off });
    expect(await state(first)).toEqual(alone);
    await upgrade(helm, { namespace: first });
    expect(await state(first)).toEqual(highlyAvailable);
    await helm.rollback(2, { namespace: first });
    expect(await state(first)).toEqual(alone);
  });
});

test.each(helmNames)(
  'a failed uninstall check removes nothing, and a rollback revives the release, by %s',
  async (name) => {
    const helm = await helmOf(name);
    const release = { namespace: first };
    await upgrade(helm, release);
    // The check never finishes without a node.
    await expect(helm.uninstallAfterCheck(release, '3s')).rejects.toThrow(HelmError);
    expect(await state(first)).toEqual(highlyAvailable);
    await expect(upgrade(helm, release)).rejects.toThrow('has no deployed releases');
    await helm.rollback(1, release);
    await upgrade(helm, release);
    expect(await state(first)).toEqual(highlyAvailable);
  },
);

describe.each(helmNames)('an overlap of watched namespaces, by %s', (name) => {
  test('with a release that watches every namespace is rejected if Helm can ask the cluster', async () => {
    const helm = await helmOf(name);
    await upgrade(helm, { release: 'whole', namespace: first });
    const words = `release "whole" in namespace "${first}" already watches every namespace`;
    const sameName = { release: 'whole', namespace: second };
    const sameNamespace = { release: 'other', namespace: first, values: { nameOverride: 'voice' } };
    const list = { release: 'other', namespace: second, values: { watchNamespaces: [second] } };
    for (const other of [sameName, sameNamespace, list]) expect(await refusal(upgrade(helm, other))).toContain(words);
    expect(await refusal(helm.render({ ...sameName, dryRun: 'server' }))).toContain(words);
    expect((await helm.render(sameName)).all('Deployment')).toHaveLength(1);
    // Without that release, for example if only its namespace was deleted, the message's command goes on.
    const [, ...command] =
      /If that release no longer exists: (kubectl) (delete) (\S+) (\S+)$/m.exec(
        await refusal(upgrade(helm, sameName)),
      ) ?? [];
    expect(command).toEqual(['kubectl', 'delete', 'clusterrole,clusterrolebinding', `whole-echoperator.${first}`]);
    // A release does not conflict with itself, even under another name for its objects.
    await upgrade(helm, { release: 'whole', namespace: first, values: { nameOverride: 'voice' } });
  });

  const namespaced = { release: 'part', values: { scope: { namespaced: true } } };

  test('by a release that watches every namespace is rejected after one with scope.namespaced', async () => {
    const helm = await helmOf(name);
    await upgrade(helm, { ...namespaced, namespace: second });
    expect(await refusal(upgrade(helm, { release: 'whole', namespace: first }))).toContain(
      `release "part" in namespace "${second}" already watches namespace "${second}"`,
    );
  });

  test('by a release with scope.namespaced cannot be seen after one that watches every namespace, and the notes name a command that shows it', async () => {
    const helm = await helmOf(name);
    await upgrade(helm, { release: 'whole', namespace: first });
    const notes = await (await helmOf('helm4')).notes(namespaced.values, { namespace: second, dryRun: 'server' });
    await upgrade(helm, { ...namespaced, namespace: second });
    const [, arguments_ = ''] = /kubectl (get clusterrolebindings .*)$/m.exec(notes) ?? [];
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const { stdout } = await execa(kubectl, [...arguments_.split(' '), '--output=name'], {
      env: { KUBECONFIG: cluster.kubeconfig },
    });
    expect(stdout).toBe(`clusterrolebinding.rbac.authorization.k8s.io/whole-echoperator.${first}`);
  });
});

describe.each(helmNames)('an upgrade from an earlier chart, by %s', (name) => {
  const original = parse(readFileSync(join(import.meta.dirname, '../../examples/values/original.yaml'), 'utf8'));
  const { fullnameOverride: _, ...originalDefaults } = original;
  const on = { controllers: { echo: { enabled: true }, podSet: { enabled: true } } };
  const others = Object.fromEntries(
    controllerNames.filter((each) => !(each in on.controllers)).map((each) => [each, { enabled: false }]),
  );

  test('with --reuse-values, which leaves out all new defaults, has these defaults', async () => {
    await upgrade(await helmOf(name, await earlierChart(originalDefaults)), { namespace: first });
    await upgrade(await helmOf(name), { namespace: first, keep: '--reuse-values' });
    expect(await controllersOf(first)).toBe('echo,scheduledEcho');
    expect(await state(first)).toEqual({ ...highlyAvailable, replicas: original.ha.replicaCount });
  });

  test('with --reuse-values may set single values of groups that the earlier chart did not have', async () => {
    await upgrade(await helmOf(name, await earlierChart(originalDefaults)), { namespace: first });
    const values = {
      controllers: { podSet: { enabled: true } },
      networkPolicy: { enabled: true },
      podDisruptionBudget: { minAvailable: 2 },
      petstore: { enabled: true, tls: { enabled: false } },
      postgresWriter: { tls: { existingSecret: 'ca' } },
    };
    await upgrade(await helmOf(name), { namespace: first, values, keep: '--reuse-values' });
    expect(await controllersOf(first)).toBe('echo,podSet,scheduledEcho');
  });

  test('with --reuse-values keeps on what was on by default', async () => {
    const defaults = { ...originalDefaults, controllers: { ...on.controllers, ...others } };
    await upgrade(await helmOf(name, await earlierChart(defaults)), { namespace: first });
    await upgrade(await helmOf(name), { namespace: first, keep: '--reuse-values' });
    expect(await controllersOf(first)).toBe('echo,podSet');
  });

  test('with --reuse-values keeps a pet store without TLS and NetworkPolicy, which the earlier chart had no switches for', async () => {
    const petstore = { enabled: true, tls: { existingSecret: '', secretName: '' }, networkPolicy: { from: [] } };
    const pet = { tls: { enabled: false, existingSecret: '', caSecret: '' } };
    await upgrade(await helmOf(name, await earlierChart({ ...originalDefaults, petstore, pet })), { namespace: first });
    await upgrade(await helmOf(name), { namespace: first, keep: '--reuse-values' });
    const { spec } = await cluster.client.get(StatefulSet, { namespace: first, name: 'demo-echoperator-petstore' });
    expect(JSON.stringify(spec)).not.toContain('TLS');
    expect((await cluster.client.list(NetworkPolicy, { namespace: first })).items).toEqual([]);
  });

  test('with --reset-then-reuse-values keeps on what was switched on', async () => {
    await upgrade(await helmOf(name, await earlierChart(originalDefaults)), { namespace: first, values: on });
    await upgrade(await helmOf(name), { namespace: first, keep: '--reset-then-reuse-values' });
    expect(await controllersOf(first)).toBe('echo,podSet,scheduledEcho');
  });
});

describe.each(helmNames)("an upgrade of the original's release, by %s", (name) => {
  const lasting = (leaseDurationSeconds: number) => ({ ha: { leaderElection: { leaseDurationSeconds } } });

  test('must not lengthen the Lease, whose end the standbys of the original take from their own settings', async () => {
    await upgrade(await helmOf(name, await originalChart()), { namespace: first });
    const spec = { holderIdentity: 'original', leaseDurationSeconds: 15 };
    const metadata = { namespace: first, name: 'demo-echoperator' };
    await cluster.client.create(Lease, { metadata, spec });
    const helm = await helmOf(name);
    const said = await refusal(upgrade(helm, { namespace: first, values: lasting(20) }));
    expect(said).toContain('ha.leaderElection.leaseDurationSeconds (20) is longer than the Lease of the original (15)');
    await upgrade(helm, { namespace: first });
    await upgrade(helm, { namespace: first, values: lasting(20) });
    await cluster.client.delete(Lease, metadata);
  });

  test('may have any time if the original uses no Lease', async () => {
    await upgrade(await helmOf(name, await originalChart()), { namespace: second });
    await upgrade(await helmOf(name), { namespace: second, values: lasting(20) });
  });
});

test('the notes count the objects of kinds that are off, in the watched namespaces', async () => {
  const helm = await helmOf('helm4');
  await upgrade(helm, { namespace: first });
  for (const [namespace, name] of [[second, 'a'] as const, [third, 'b'] as const]) {
    const metadata = { namespace, name, generation: 0 };
    await eventually('the kind is served', () => cluster.client.create(PodSet, { metadata, spec: { replicas: 1 } }));
  }
  const notes = (values: object) => helm.notes(values, { namespace: first, dryRun: 'server' });
  expect(await notes({})).toContain('nothing reconciles 2 podsets');
  expect(await notes({ watchNamespaces: [second] })).toContain('nothing reconciles 1 podsets');
  expect(await notes({ watchNamespaces: [first] })).not.toContain('nothing reconciles');
  expect(await notes({ controllers: { podSet: { enabled: true } } })).not.toContain('nothing reconciles');
});

describe('the permissions of the operator', () => {
  const user = () => `system:serviceaccount:${first}:demo-echoperator`;

  /** Returns the permitted verbs. */
  const allowed = async (
    verbs: readonly string[],
    namespace: string,
    [group, resource, name = '']: readonly [group: string, resource: string, name?: string],
  ): Promise<readonly string[]> => {
    const answers = await Promise.all(
      verbs.map(async (verb) => {
        const spec = { user: user(), resourceAttributes: { verb, namespace, group, resource, name } };
        // A SubjectAccessReview has no name.
        const metadata = {} as { readonly name: string };
        const { status } = await cluster.client.create(SubjectAccessReview, { metadata, spec });
        return status?.allowed ? [verb] : [];
      }),
    );
    return answers.flat();
  };

  test('apply in the watched namespaces, and for its Lease in its own namespace', async () => {
    await upgrade(await helmOf('helm4'), {
      namespace: first,
      values: { watchNamespaces: [second], controllers: { podSet: { enabled: true } } },
    });
    const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];
    const watched = ['get', 'list', 'watch'];
    const [echos, jobs, pods] = [
      ['mmontes.io', 'echos'],
      ['batch', 'jobs'],
      ['', 'pods'],
    ] as const;
    const lease = ['coordination.k8s.io', 'leases', 'demo-echoperator'] as const;
    expect(await allowed(verbs, second, echos)).toEqual(watched);
    expect(await allowed(verbs, second, jobs)).toEqual(['get', 'list', 'watch', 'create', 'delete']);
    expect(await allowed(verbs, second, pods)).toEqual([...watched, 'create', 'patch', 'delete']);
    for (const other of [first, third]) {
      expect(await allowed(verbs, other, echos)).toEqual([]);
      expect(await allowed(verbs, other, jobs)).toEqual([]);
    }
    expect(await allowed(verbs, first, lease)).toEqual([...watched, 'create', 'update', 'patch']);
    expect(await allowed(verbs, first, ['coordination.k8s.io', 'leases', 'another'])).toEqual(['list', 'create']);
    expect(await allowed(verbs, first, pods)).toEqual(watched);
    expect(await allowed(verbs, second, lease)).toEqual([]);
    expect(await allowed(verbs, third, pods)).toEqual([]);
  });

  test('let it watch its own Lease by name and no other Lease, and list those of its namespace alone', async () => {
    await upgrade(await helmOf('helm4'), { namespace: first });
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const list = (...selector: readonly string[]) =>
      execa(kubectl, ['get', 'leases', `--as=${user()}`, ...selector], {
        env: { KUBECONFIG: cluster.kubeconfig },
        reject: false,
      });
    const own = `--namespace=${first}`;
    expect((await list(own, '--field-selector=metadata.name=demo-echoperator')).stderr).toContain('No resources found');
    expect((await list(own)).stderr).toContain('No resources found');
    expect((await list('--all-namespaces')).stderr).toContain('Forbidden');
  });
});
