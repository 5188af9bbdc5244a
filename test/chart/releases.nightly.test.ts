import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import {
  alone,
  chartWithoutStrategy,
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
import { everyHelm } from './helm.ts';

beforeAll(() => setUp());
afterEach(() => uninstallAll());
afterAll(() => tearDown());

describe.each(everyHelm)('ha.enabled, by %s', (name) => {
  test('can be switched on for a release of the original chart, which leaves the strategy to the API server', async () => {
    await upgrade(await helmOf(name, await chartWithoutStrategy()), { namespace: first, values: off });
    expect((await state(first)).strategy?.rollingUpdate).toEqual({ maxSurge: '25%', maxUnavailable: '25%' });
    const helm = await helmOf(name);
    await upgrade(helm, { namespace: first });
    expect(await state(first)).toEqual(highlyAvailable);
    await upgrade(helm, { namespace: first, values: off });
    expect(await state(first)).toEqual(alone);
  });
});

test('ha.enabled stays off for such a release of Helm 4 only with client-side apply', async () => {
  await upgrade(await helmOf('helm4', await chartWithoutStrategy()), { namespace: first, values: off });
  const helm = await helmOf('helm4');
  await expect(upgrade(helm, { namespace: first, values: off })).rejects.toThrow('spec.strategy.rollingUpdate');
  await upgrade(helm, { namespace: first, values: off, flags: ['--server-side=false'] });
  expect(await state(first)).toEqual(alone);
});

test.each([[[]], [['--server-side=true', '--force-conflicts']]])(
  'Helm 4 switches ha.enabled of a release of Helm 3, with %j',
  async (flags) => {
    await upgrade(await helmOf('helm'), { namespace: first });
    const helm = await helmOf('helm4');
    await upgrade(helm, { namespace: first, values: off, flags });
    expect(await state(first)).toEqual(alone);
    await upgrade(helm, { namespace: first, flags });
    expect(await state(first)).toEqual(highlyAvailable);
  },
);

describe.each(everyHelm)('an overlap of watched namespaces, by %s', (name) => {
  test('is rejected for a list of namespaces, and for releases with the same name only while they overlap', async () => {
    const helm = await helmOf(name);
    const words = `release "demo" in namespace "${first}" already watches namespace "${second}"`;
    await upgrade(helm, { namespace: first, values: { watchNamespaces: [first, second] } });
    const sharing = { namespace: third, values: { watchNamespaces: [third, second] } };
    const said = await refusal(upgrade(helm, sharing));
    expect(said).toContain(words);
    expect(said).toContain(`kubectl delete role,rolebinding demo-echoperator.${first} --namespace ${second}`);
    expect(await refusal(helm.render({ ...sharing, dryRun: 'server' }))).toContain(words);

    await upgrade(helm, { namespace: third, values: { watchNamespaces: [third] } });
    expect(await refusal(upgrade(helm, { namespace: third }))).toContain(`release "demo" in namespace "${first}"`);
    await upgrade(helm, { namespace: first, values: { watchNamespaces: [first] } });
    await upgrade(helm, sharing);
    await helm.uninstall({ namespace: first });
    await upgrade(helm, { namespace: third });
  });
});
