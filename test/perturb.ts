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
import { perturb } from '../src/runtime/testing/index.ts';
import { startControlPlane } from '../testkit/control-plane.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { TestCluster } from '../testkit/test-cluster.ts';
import { scenariosOn } from './integration/environment/perturbed-scenarios.ts';

const { PLAN = '' } = process.env;
const folder = await makeRunFolder('perturb');
const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../crds')]);
try {
  const { kubeconfigPath } = controlPlane.config;
  const cluster = await TestCluster.at(kubeconfigPath, controlPlane.auditLog);
  const scenarios = scenariosOn(cluster).filter(({ name }) => PLAN === '' || PLAN.split('/')[0] === name);
  const { plans, writes, failures, minutes } = await perturb({
    connection: await kubeconfigConnection(kubeconfigPath),
    log: pino({ level: 'silent' }),
    scenarios,
    select: (names) => names.filter((name) => name.startsWith(PLAN)),
    concurrency: 8,
  });
  await cluster.disconnect();
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
  await controlPlane.stop();
  await rm(folder, { recursive: true, force: true });
}
