import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { SubjectAccessReview } from '../../src/runtime/kinds/index.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import {
  alone,
  cluster,
  first,
  helmOf,
  highlyAvailable,
  off,
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
  test('is switched off and on by an upgrade, and by a rollback', async () => {
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
  'an uninstallation that is not let pass takes nothing away, and the release can go on, by %s',
  async (name) => {
    const helm = await helmOf(name);
    const release = { namespace: first };
    await upgrade(helm, release);
    // There is no node: the check never ends.
    await expect(helm.uninstallAfterCheck(release, '3s')).rejects.toThrow(HelmError);
    expect(await state(first)).toEqual(highlyAvailable);
    await expect(upgrade(helm, release)).rejects.toThrow('has no deployed releases');
    await helm.rollback(1, release);
    await upgrade(helm, release);
    expect(await state(first)).toEqual(highlyAvailable);
  },
);

describe.each(helmNames)('a scope that overlaps, by %s', (name) => {
  test('with a release that watches every namespace is refused where Helm asks the cluster', async () => {
    const helm = await helmOf(name);
    await upgrade(helm, { release: 'whole', namespace: first });
    const words = `release "whole" in namespace "${first}" watches every namespace already`;
    const sameName = { release: 'whole', namespace: second };
    const sameNamespace = { release: 'other', namespace: first, values: { nameOverride: 'voice' } };
    const list = { release: 'other', namespace: second, values: { watchNamespaces: [second] } };
    for (const other of [sameName, sameNamespace, list]) expect(await refusal(upgrade(helm, other))).toContain(words);
    expect(await refusal(helm.render({ ...sameName, dryRun: 'server' }))).toContain(words);
    expect((await helm.render(sameName)).all('Deployment')).toHaveLength(1);
    // The release itself is no other, whatever its objects are called.
    await upgrade(helm, { release: 'whole', namespace: first, values: { nameOverride: 'voice' } });
  });
});

describe('the rights of the operator', () => {
  const user = () => `system:serviceaccount:${first}:demo-echoperator`;

  /** Which of the verbs it may do. */
  const allowed = async (
    verbs: readonly string[],
    namespace: string,
    [group, resource, name = '']: readonly [group: string, resource: string, name?: string],
  ): Promise<readonly string[]> => {
    const answers = await Promise.all(
      verbs.map(async (verb) => {
        const spec = { user: user(), resourceAttributes: { verb, namespace, group, resource, name } };
        // Reviews have no name.
        const metadata = {} as { readonly name: string };
        const { status } = await cluster.client.create(SubjectAccessReview, { metadata, spec });
        return status?.allowed ? [verb] : [];
      }),
    );
    return answers.flat();
  };

  test('are in the namespaces that it watches, and for its Lease in its own', async () => {
    await upgrade(await helmOf('helm4'), { namespace: first, values: { watchNamespaces: [second] } });
    const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];
    const watched = ['get', 'list', 'watch'];
    const [echos, jobs, pods] = [
      ['mmontes.io', 'echos'],
      ['batch', 'jobs'],
      ['', 'pods'],
    ] as const;
    const lease = ['coordination.k8s.io', 'leases', 'demo-echoperator'] as const;
    expect(await allowed(verbs, second, echos)).toEqual(watched);
    expect(await allowed(verbs, second, jobs)).toEqual(['list', 'watch', 'create', 'delete']);
    expect(await allowed(verbs, second, pods)).toEqual([...watched, 'create', 'patch', 'delete']);
    for (const other of [first, third]) {
      expect(await allowed(verbs, other, echos)).toEqual([]);
      expect(await allowed(verbs, other, jobs)).toEqual([]);
    }
    expect(await allowed(verbs, first, lease)).toEqual([...watched, 'create', 'update', 'patch']);
    expect(await allowed(verbs, first, ['coordination.k8s.io', 'leases', 'another'])).toEqual(['create']);
    expect(await allowed(verbs, first, pods)).toEqual(watched);
    expect(await allowed(verbs, second, lease)).toEqual([]);
    expect(await allowed(verbs, third, pods)).toEqual([]);
  });

  test('let it list the one Lease by its name, and no others', async () => {
    await upgrade(await helmOf('helm4'), { namespace: first });
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const list = (...selector: readonly string[]) =>
      execa(kubectl, ['get', 'leases', `--as=${user()}`, `--namespace=${first}`, ...selector], {
        env: { KUBECONFIG: cluster.kubeconfig },
        reject: false,
      });
    expect((await list('--field-selector=metadata.name=demo-echoperator')).stderr).toContain('No resources found');
    expect((await list()).stderr).toContain('Forbidden');
  });
});
