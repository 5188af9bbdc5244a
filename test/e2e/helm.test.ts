import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { echo } from './environment/cluster.ts';
import { cluster, namespace, printed, setUp, tearDown, uids } from './environment/helm.ts';
import { olderChart } from './environment/older-chart.ts';
import { Release } from './environment/release.ts';

let release: Release | undefined;

beforeEach(setUp);

afterEach(async () => {
  await tearDown(release);
  release = undefined;
});

test('an upgrade from an older release updates the CRDs and passes `helm test`; a rollback and an uninstallation lose nothing', async () => {
  await using older = await olderChart();
  const minimal = join(import.meta.dirname, '../../examples/values/minimal.yaml');
  await cluster.kubectl(['apply', '--server-side', '--force-conflicts', `--filename=${older.crds}`]);
  release = await Release.install(cluster, [...older.flags, '--values', minimal], older.folder);
  await cluster.apply(echo('first', namespace, { message: 'made under the older release' }));
  await printed('first');
  await expect(cluster.apply(echo('brief', namespace, { message: 'x', ttlSecondsAfterFinished: 600 }))).rejects.toThrow(
    'ttlSecondsAfterFinished',
  );

  await release.upgrade();
  await cluster.apply(echo('brief', namespace, { message: 'with a time to live', ttlSecondsAfterFinished: 600 }));
  await printed('brief');
  const before = await uids();
  expect(before).toHaveLength(2);
  expect(await release.test()).toMatch(/Phase: +Succeeded/);

  await release.rollback(1);
  expect(await uids()).toEqual(before);
  await cluster.apply(echo('after', namespace, { message: 'made after the rollback' }));
  await printed('after');
  expect(await cluster.logOf('after', namespace)).toBe('made after the rollback\n');

  const atLast = await uids();
  await release.uninstall();
  release = undefined;
  expect(await uids()).toEqual(atLast);
});
