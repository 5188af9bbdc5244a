/**
 * Runs plans of the kits with the source that this file is in, which is a copy with a bug.
 *
 *     node test/seeded-bugs/run-plans.ts REQUEST    REQUEST: a PlansRequest as JSON
 *
 * Prints a PlansResult as JSON. Any exit code but 0 says that the plans could not be run.
 */

import { type Connection, kubeconfigConnection } from '@echoperator/runtime/client';
import { connectOperator } from '@echoperator/runtime/process';
import { mutate, PerturbationError, perturb, type Scenario } from '@echoperator/testing';
import { pino } from 'pino';
import { readConfig } from '../../src/config.ts';
import { addControllers } from '../../src/operator.ts';
import { eventually } from '../../testkit/eventually.ts';
import { namespaceWithNode } from '../../testkit/kwok.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { ExternalSystems } from '../integration/environment/external-systems.ts';
import { externalScenariosOn, mutatedSubjects, scenariosOn } from '../plans/index.ts';
import { naiveScenario } from './naive-scenario.ts';
import type { Plans } from './seeded-bug.ts';

/** What to run, and with which programs. */
export interface PlansRequest {
  readonly kubeconfig: string;
  readonly auditLog: string;
  /** The operator's settings for the database and the pet store. */
  readonly settings: Readonly<Record<string, string>>;
  readonly plans: Plans;
}

export interface PlansResult {
  /** The names of the plans that ran. */
  readonly plans: readonly string[];
  /** The messages of the failures that the kits reported. */
  readonly failures: readonly string[];
  /** What reported them. */
  readonly foundBy: FoundBy;
}

/** A run that nothing perturbed, a perturbed one, a changed property of a spec, or a property of the unit tests. */
export type FoundBy = 'undisturbed run' | 'perturbation' | 'mutation' | 'property' | 'unit test';

const log = pino({ level: 'silent' });

const timeoutMs = 20_000;

const beginsWithOne = (name: string, beginnings: readonly string[]): boolean =>
  beginnings.some((beginning) => name.startsWith(beginning));

/** Runs the plans of one scenario after the other, and stops after the first with a failure. */
async function perturbAll(
  connection: Connection,
  scenarios: readonly Scenario[],
  beginnings: readonly string[],
): Promise<PlansResult> {
  const ran: string[] = [];
  for (const scenario of scenarios) {
    const chosen = beginnings.filter((beginning) => beginning.split('/')[0] === scenario.name);
    if (chosen.length === 0) continue;
    // Not `only`: a step without writes, or without those that a bug prevents, still has its undisturbed runs.
    const select = (plans: readonly string[]) =>
      plans.filter((plan) =>
        chosen.some((beginning) => `${plan} `.startsWith(`${beginning} `) || plan.startsWith(`${beginning}/`)),
      );
    try {
      const report = await perturb({ connection, log, scenarios: [scenario], select, timeoutMs, concurrency: 8 });
      ran.push(...report.plans);
      if (report.failures.length === 0) continue;
      return { plans: ran, failures: report.failures.map(({ message }) => message), foundBy: 'perturbation' };
    } catch (error) {
      if (!(error instanceof PerturbationError)) throw error;
      return { plans: ran, failures: [error.message], foundBy: 'undisturbed run' };
    }
  }
  return { plans: ran, failures: [], foundBy: 'perturbation' };
}

async function mutateAll(
  connection: Connection,
  cluster: TestCluster,
  external: ExternalSystems,
  beginnings: readonly string[],
): Promise<PlansResult> {
  const operator = await connectOperator({ name: 'operator', log, connection });
  addControllers(operator, readConfig({ ...external.settings, NUM_WORKERS: '8' }));
  const stop = new AbortController();
  const running = operator.run(stop.signal);
  try {
    await eventually('the operator is ready', async () => operator.readiness().ready);
    const plans: string[] = [];
    const select = (plan: string): boolean => {
      const isSelected = beginsWithOne(plan, beginnings);
      if (isSelected) plans.push(plan);
      return isSelected;
    };
    const subjects = mutatedSubjects(external);
    const createNamespace = () => namespaceWithNode(cluster);
    const { failures } = await mutate({ connection, subjects, select, createNamespace, timeoutMs, histories: 5 });
    return { plans, failures: failures.map(({ message }) => message), foundBy: 'mutation' };
  } finally {
    stop.abort();
    await running;
  }
}

async function run({ kubeconfig, auditLog, settings, plans }: PlansRequest): Promise<PlansResult> {
  const connection = await kubeconfigConnection(kubeconfig);
  const cluster = await TestCluster.at(kubeconfig, auditLog);
  using external = new ExternalSystems(cluster.client, settings);
  const scenarios = [...scenariosOn(cluster), ...externalScenariosOn(external), naiveScenario];
  try {
    const perturbed = await perturbAll(connection, scenarios, plans.perturb ?? []);
    if (perturbed.failures.length > 0 || plans.mutate === undefined) return perturbed;
    const mutated = await mutateAll(connection, cluster, external, plans.mutate);
    return { ...mutated, plans: [...perturbed.plans, ...mutated.plans] };
  } finally {
    await cluster.disconnect();
  }
}

console.log(JSON.stringify(await run(JSON.parse(process.argv[2] ?? ''))));
