/**
 * The program behind `make perturb`: crashes and lost replies at every write of the operator, and stale views in every
 * step.
 *
 *     node test/perturb.ts    runs the plans that PLAN names, such as `echo`, `echo/create write 1 unsent` or
 *                             `echo/create patch echos hello/status unsent` (default: all)
 *
 * Exits with 0 if each write was perturbed, no plan failed, and it took at most 20 minutes.
 */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import {
  type PerturbOptions,
  type PerturbReport,
  perturb,
  type Scenario,
  type WriteCounts,
} from '@echoperator/testing';
import { pino } from 'pino';
import { startControlPlane } from '../testkit/control-plane.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { TestCluster } from '../testkit/test-cluster.ts';
import { ExternalPrograms, ExternalSystems } from './integration/environment/external-systems.ts';
import { originalCrdScenariosOn } from './integration/environment/original-crd-scenarios.ts';
import { externalScenariosOn, scenariosOn } from './plans/index.ts';

const { PLAN = '' } = process.env;

/** How long all plans may take. */
const maxMinutes = 20;

const options: Pick<PerturbOptions, 'log' | 'only' | 'onFailure'> = {
  log: pino({ level: 'silent' }),
  ...(PLAN !== '' && { only: [PLAN] }),
  onFailure: ({ message }) => console.error(`${message}\n`),
};

const isChosen = ({ name }: Pick<Scenario, 'name'>): boolean => PLAN === '' || PLAN.split('/')[0] === name;

/** The scenario over the original definitions. */
const overOriginal = { name: 'echo-original-crd' };

async function run(folder: string): Promise<PerturbReport> {
  await using resources = new AsyncDisposableStack();
  const { connection, cluster } = await startCluster(folder, resources);
  const programs = resources.use(await ExternalPrograms.start(folder));
  const external = resources.use(new ExternalSystems(cluster.client, programs.settings));
  const scenarios = [...scenariosOn(cluster), ...externalScenariosOn(external)].filter(isChosen);
  return await perturb({ ...options, connection, scenarios, concurrency: 24 });
}

/** These scenarios change CustomResourceDefinitions, so they have a cluster for themselves, and run one at a time. */
async function runOverOriginalCrds(folder: string, isSelected: (plan: string) => boolean): Promise<PerturbReport> {
  await using resources = new AsyncDisposableStack();
  const { connection, cluster } = await startCluster(folder, resources);
  const scenarios = originalCrdScenariosOn(cluster);
  const select = (plans: readonly string[]): readonly string[] => plans.filter(isSelected);
  return await perturb({ ...options, select, connection, scenarios, concurrency: 1 });
}

async function startCluster(folder: string, resources: AsyncDisposableStack) {
  const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../crds')]);
  resources.defer(() => controlPlane.stop());
  const { kubeconfigPath } = controlPlane.config;
  const cluster = await TestCluster.at(kubeconfigPath, controlPlane.auditLog);
  resources.defer(() => cluster.disconnect());
  return { connection: await kubeconfigConnection(kubeconfigPath), cluster };
}

/**
 * Runs all at the same time. The plans over the original definitions mostly wait, so their first step has a cluster of
 * its own.
 */
async function runAll(folder: string): Promise<PerturbReport> {
  const folders = ['ours', 'original-first', 'original-later'].map((name) => join(folder, name));
  for (const each of folders) await mkdir(each);
  const [ours = '', first = '', later = ''] = folders;
  const isFirst = (plan: string): boolean => plan.startsWith(`${overOriginal.name}/create `);
  const reports = await Promise.all([
    ...(PLAN === '' || !isChosen(overOriginal) ? [run(ours)] : []),
    ...(isChosen(overOriginal)
      ? [runOverOriginalCrds(first, isFirst), runOverOriginalCrds(later, (plan) => !isFirst(plan))]
      : []),
  ]);
  const all = <K extends keyof PerturbReport>(name: K): readonly PerturbReport[K][] =>
    reports.map((each) => each[name]);
  return {
    plans: all('plans').flat(),
    writes: sumOf(all('writes')),
    varyingWrites: sumOf(all('varyingWrites')),
    missed: all('missed').flat(),
    failures: all('failures').flat(),
    minutes: Math.max(...all('minutes')),
  };
}

const sumOf = (counts: readonly WriteCounts[]): WriteCounts => ({
  planned: counts.reduce((sum, { planned }) => sum + planned, 0),
  perturbed: counts.reduce((sum, { perturbed }) => sum + perturbed, 0),
});

const folder = await makeRunFolder('perturb');
try {
  const { plans, writes, varyingWrites, missed, failures, minutes } = await runAll(folder);
  for (const name of missed) console.log(`the write was not sent: ${name}`);
  const percent = ((100 * writes.perturbed) / Math.max(writes.planned, 1)).toFixed(0);
  console.log(
    `${plans.length} plans, ${writes.perturbed} of ${writes.planned} writes perturbed (${percent} %), ` +
      `and ${varyingWrites.perturbed} of ${varyingWrites.planned} that are not sent in every run, ` +
      `${failures.length} failures, ${minutes.toFixed(1)} minutes`,
  );
  for (const { message } of failures) console.log(`failed: ${message.split('\n', 1)[0]}`);
  const problems = [
    ...(failures.length > 0 ? [`${failures.length} plans failed`] : []),
    ...(writes.perturbed < writes.planned ? ['not every write was perturbed'] : []),
    ...(minutes > maxMinutes ? [`it took more than ${maxMinutes} minutes`] : []),
  ];
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
