/**
 * The program behind `make perturb`: crashes and lost replies at every write of the operator, and stale views in every step.
 *
 *     node test/perturb.ts    runs the plans whose names begin with PLAN, such as `echo/create write 1 unsent` (default: all)
 *
 * Exits with 0 if no plan failed, 1 if one failed.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { kubeconfigConnection } from '../src/runtime/client/index.ts';
import { type PerturbReport, perturb } from '../src/runtime/testing/index.ts';
import { startControlPlane } from '../testkit/control-plane.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { TestCluster } from '../testkit/test-cluster.ts';
import { OutsidePrograms, OutsideSystems } from './integration/environment/outside-systems.ts';
import { outsideScenariosOn, scenariosOn } from './integration/environment/perturbed-scenarios.ts';

const { PLAN = '' } = process.env;

async function run(folder: string): Promise<PerturbReport> {
  await using resources = new AsyncDisposableStack();
  const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../crds')]);
  resources.defer(() => controlPlane.stop());
  const { kubeconfigPath } = controlPlane.config;
  const cluster = await TestCluster.at(kubeconfigPath, controlPlane.auditLog);
  resources.defer(() => cluster.disconnect());
  const programs = resources.use(await OutsidePrograms.start(folder));
  const outside = resources.use(new OutsideSystems(cluster.client, programs.settings));
  const scenarios = [...scenariosOn(cluster), ...outsideScenariosOn(outside)];
  return await perturb({
    connection: await kubeconfigConnection(kubeconfigPath),
    log: pino({ level: 'silent' }),
    scenarios: scenarios.filter(({ name }) => PLAN === '' || PLAN.split('/')[0] === name),
    select: (names) => names.filter((name) => name.startsWith(PLAN)),
    concurrency: 8,
  });
}

const folder = await makeRunFolder('perturb');
try {
  const { plans, writes, failures, minutes } = await run(folder);
  for (const { message } of failures) console.error(`${message}\n`);
  console.log(
    `${plans.length} plans, ${writes.perturbed} of ${writes.learned} writes perturbed ` +
      `(${writes.varying} more are not sent in every run), ` +
      `${failures.length} failures, ${minutes.toFixed(1)} minutes`,
  );
  for (const { message } of failures) console.log(`failed: ${message.split('\n', 1)[0]}`);
  if (plans.length === 0) console.error(`no plan begins with ${PLAN}`);
  process.exitCode = plans.length > 0 && failures.length === 0 ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
