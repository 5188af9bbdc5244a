import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { expectNothingPlanned, planProgram } from './environment/planned-objects.ts';

let cluster: TestCluster;

beforeEach(async () => {
  cluster = await TestCluster.connect();
});
afterEach(() => cluster.close());

test('the same version plans no write, and other settings plan their changes', async () => {
  const namespace = await cluster.namespace();
  const counts = { echo: 40, scheduledEcho: 40, podSet: 60, bookStore: 20, pet: 20, postgresWriter: 20 };
  await expectNothingPlanned(cluster, namespace, counts, 120_000);

  const same = await planProgram(cluster, namespace, []);
  expect(same.stdout).toContain('200 objects planned');
  expect(same.stdout).toContain('External calls, which end the plan of their objects (40)');
  expect(same.exitCode).toBe(0);

  const image = { ECHO_IMAGE: 'example.com/other:2' };
  const other = await planProgram(cluster, namespace, ['--json', '--kind', 'scheduledecho', '-n', namespace], image);
  const { reconciled, objects } = JSON.parse(other.stdout);
  expect([other.exitCode, reconciled, objects.length]).toEqual([3, 40, 40]);
  expect(objects[0].writes).toMatchObject([{ action: 'change', kind: 'CronJob', namespace }]);
  expect(objects[0].writes[0].fields).toContainEqual({
    path: 'spec.jobTemplate.spec.template.spec.containers[echo].image',
    before: expect.any(String),
    after: 'example.com/other:2',
  });
  const deletions = await planProgram(cluster, namespace, ['--fail-on', 'delete,replace'], image);
  expect(deletions.exitCode).toBe(0);
  expect(deletions.stdout).toMatch(/change .* and 35 more\n/);
  const wrong = await planProgram(cluster, namespace, ['--fail-on', 'deletes']);
  expect([wrong.exitCode, wrong.stderr]).toEqual([2, expect.stringContaining('--fail-on: got deletes')]);
}, 300_000);
