import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { expectNothingPlanned, expectPlannedVersions, planProgram } from './environment/planned-objects.ts';

let cluster: TestCluster;

beforeEach(async () => {
  cluster = await TestCluster.connect();
});
afterEach(() => cluster.close());

/** How many objects, to try it with fewer: `PLAN_OBJECTS=1000`. */
const total = Number(process.env.PLAN_OBJECTS ?? 10_000);
const share = (part: number): number => Math.round(total * part);

test('the same version plans no write for 10,000 objects, several thousand a minute', async () => {
  const namespace = await cluster.namespace();
  const counts = {
    echo: share(0.4),
    scheduledEcho: share(0.25),
    podSet: share(0.2),
    bookStore: share(0.05),
    pet: share(0.05),
    postgresWriter: share(0.05),
  };
  const { reconciled, seconds } = await expectNothingPlanned(cluster, namespace, counts, 1_500_000);
  console.log(`${reconciled} objects planned in ${seconds.toFixed(1)} s`);
  expect(reconciled / seconds).toBeGreaterThan(3000 / 60);

  // The Job of docs/plan.md has the memory limit of the operator. Each CronJob changes.
  const settings = { ECHO_IMAGE: 'example.com/other:2', NODE_OPTIONS: `--import ${reportPeak}` };
  const program = await planProgram(cluster, namespace, ['--json'], settings);
  const peakMB = Number(/peak (\d+)/.exec(program.stderr)?.[1]) / 1024;
  const changed = JSON.parse(program.stdout);
  console.log(
    `${changed.reconciled} objects with ${counts.scheduledEcho} changes planned in ${changed.seconds.toFixed(1)} s, ` +
      `${peakMB.toFixed(0)} MB at most`,
  );
  expect(program.exitCode).toBe(3);
  expect(changed.objects.filter(({ writes }: { writes: readonly object[] }) => writes.length > 0)).toHaveLength(
    counts.scheduledEcho,
  );
  expect(changed.reconciled / changed.seconds).toBeGreaterThan(3000 / 60);
  expect(peakMB).toBeLessThan(400);
}, 2_000_000);

/** A module that prints the most memory that the process has used, in kB. */
const reportPeak =
  "data:text/javascript,process.on('exit',()=>process.stderr.write('peak\\u0020'+process.resourceUsage().maxRSS))";

test('every version of the operator does exactly what its plan says', expectPlannedVersions, 1_500_000);
