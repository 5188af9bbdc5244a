/**
 * The program behind `make mutate`: changes the specs of all kinds in every way that their schemas suggest.
 *
 *     node test/mutate.ts    runs the plans whose names begin with PLAN, such as `Echo/message` or `Echo/histories` (default: all).
 *                            MUTATION_SEED repeats the random histories of another run, HISTORIES is their number per kind (20)
 *
 * Exits with 0 if no plan failed, every property was changed or is immutable, and every CEL rule was broken, 1
 * otherwise.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { connectOperator } from '@echoperator/runtime/process';
import { type MutateReport, mutate } from '@echoperator/testing';
import { pino } from 'pino';
import { readConfig } from '../src/config.ts';
import { addControllers } from '../src/operator.ts';
import { startControlPlane } from '../testkit/control-plane.ts';
import { eventually } from '../testkit/eventually.ts';
import { namespaceWithNode } from '../testkit/kwok.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { TestCluster } from '../testkit/test-cluster.ts';
import { ExternalPrograms, ExternalSystems } from './integration/environment/external-systems.ts';
import { mutatedSubjects } from './plans/index.ts';

const { PLAN = '', MUTATION_SEED, HISTORIES = '20' } = process.env;

async function run(folder: string): Promise<MutateReport> {
  await using resources = new AsyncDisposableStack();
  const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../crds')], { kwok: true });
  resources.defer(() => controlPlane.stop());
  const { kubeconfigPath } = controlPlane.config;
  const cluster = await TestCluster.at(kubeconfigPath, controlPlane.auditLog);
  resources.defer(() => cluster.disconnect());
  const programs = resources.use(await ExternalPrograms.start(folder));
  const external = resources.use(new ExternalSystems(cluster.client, programs.settings));
  const connection = await kubeconfigConnection(kubeconfigPath);
  const operator = await connectOperator({ name: 'operator', log: pino({ level: 'silent' }), connection });
  addControllers(operator, readConfig({ ...external.settings, NUM_WORKERS: '8' }));
  const stop = new AbortController();
  const running = operator.run(stop.signal);
  resources.defer(async () => {
    stop.abort();
    await running;
  });
  await eventually('the operator is ready', async () => operator.readiness().ready);
  const report = await mutate({
    connection,
    subjects: mutatedSubjects(external),
    select: (plan) => plan.startsWith(PLAN),
    createNamespace: () => namespaceWithNode(cluster),
    histories: Number(HISTORIES),
    concurrency: 8,
    onFailure: ({ message }) => console.error(`${message}\n`),
    ...(MUTATION_SEED !== undefined && { seed: Number(MUTATION_SEED) }),
  });
  await external.expectEmpty();
  return report;
}

const folder = await makeRunFolder('mutate');
try {
  const { properties, rules, values, histories, seed, failures, minutes } = await run(folder);
  const isWhole = PLAN === '';
  const covered = [...properties.changed, ...properties.immutable];
  const missed = isWhole ? properties.all.filter((property) => !covered.includes(property)) : [];
  const unbroken = isWhole ? rules.all.filter((rule) => !rules.broken.includes(rule)) : [];
  console.log(
    `${properties.changed.length} of ${properties.all.length} properties changed and ${properties.immutable.length} immutable, ${rules.broken.length} of ${rules.all.length} rules broken, ` +
      `${values.accepted} values accepted and ${values.rejected} rejected, ${histories} random histories (MUTATION_SEED=${seed}), ${failures.length} failures, ${minutes.toFixed(1)} minutes`,
  );
  if (missed.length > 0) console.error(`never changed: ${missed.join(', ')}`);
  if (unbroken.length > 0) console.error(`never broken: ${unbroken.join(', ')}`);
  process.exitCode = failures.length === 0 && missed.length === 0 && unbroken.length === 0 ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
