import type { Kind, KubeObject, Manifest } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { Pod } from '@echoperator/runtime/kinds';
import { changeTypes, countChanges, type Plan, planOperator } from '@echoperator/runtime/plan';
import { expect } from '@jest/globals';
import { execa } from 'execa';
import { pino } from 'pino';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { readConfig } from '../../../src/config.ts';
import { addControllers, controllers } from '../../../src/operator.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { OperatorProcess, operatorCommand } from '../../../testkit/operator-process.ts';
import { makeRunFolder } from '../../../testkit/run-folder.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';

/** How many objects of each kind exist. */
export type Counts = Readonly<Record<keyof typeof controllers, number>>;

/** A spec of each kind. A BookStore has Services of its own. */
const specs: Readonly<Record<keyof typeof controllers, (index: number) => object>> = {
  echo: (index) => ({ message: `hello ${index}` }),
  scheduledEcho: () => ({ message: 'hello', schedule: '0 0 1 1 *' }),
  podSet: (index) => ({ replicas: index % 10 === 0 ? 1 : 0 }),
  bookStore: (index) => ({
    bookApp: { repository: 'example.com/app', serviceName: `app-${index}`, replicas: 0 },
    bookDB: { repository: 'example.com/db', serviceName: `db-${index}`, dbSize: '1Gi', replicas: 0 },
  }),
  pet: (index) => ({ name: `Pet ${index}`, type: 'dog', birthday: '2021-04-01T00:00:00Z' }),
  postgresWriter: (index) => ({ table: 'students', name: `Student ${index}`, age: 23, country: 'Spain' }),
};

/** The settings of an operator whose external systems are unreachable. */
const settingsOf = (namespace: string) => ({
  CONTROLLERS: Object.keys(controllers).join(','),
  WATCH_NAMESPACES: namespace,
  PSQL_HOST: '127.0.0.1',
  PSQL_PORT: '1',
  PSQL_USER: 'nobody',
  PETSTORE_ADDRESS: '127.0.0.1:1',
});

/** Runs `echoperator plan` with the settings of {@link expectNothingPlanned}. */
export const planProgram = (
  cluster: TestCluster,
  namespace: string,
  args: readonly string[],
  settings: Readonly<Record<string, string>> = {},
) => operatorCommand(['plan', ...args], { KUBECONFIG: cluster.kubeconfig, ...settingsOf(namespace), ...settings });

async function planOf(cluster: TestCluster, namespace: string): Promise<Plan> {
  const connection = await kubeconfigConnection(cluster.kubeconfig);
  const log = pino({ level: 'silent' });
  return planOperator({ name: 'echoperator', log, connection }, (operator) =>
    addControllers(operator, readConfig(settingsOf(namespace))),
  );
}

/**
 * Creates objects, runs the operator until it has nothing left to do, and expects that a plan of the same version has
 * no write then, and that it lists the calls of external systems.
 *
 * @param timeoutMs how long the operator may take
 * @returns the plan
 */
export async function expectNothingPlanned(
  cluster: TestCluster,
  namespace: string,
  counts: Counts,
  timeoutMs: number,
): Promise<Plan> {
  const names = Object.keys(counts) as (keyof Counts)[];
  const all = names.flatMap((name) => Array.from({ length: counts[name] }, (_, index) => ({ name, index })));
  const log = phases(all.length);
  // Reconciles while the objects are created. The API server limits how fast both are.
  const operator = await OperatorProcess.start(cluster.kubeconfig, { ...settingsOf(namespace), NUM_WORKERS: '32' });
  try {
    // A plan of thousands of objects that are not reconciled yet would slow the operator down.
    const signal = AbortSignal.timeout(timeoutMs);
    const reported = Promise.all(
      names.map((name) => waitForStatuses(cluster.client, controllers[name].kind, namespace, counts[name], signal)),
    );
    await Promise.race([
      reported,
      forEachConcurrently(
        all,
        async ({ name, index }) => {
          const kind: Kind = controllers[name].kind;
          const manifest = {
            metadata: { namespace, name: `${name.toLowerCase()}-${index}` },
            spec: specs[name](index),
          };
          await cluster.client.create(kind, manifest as unknown as Manifest<KubeObject>);
        },
        32,
      ),
    ]);
    log('created');
    await reported;
    log('reported');
    await eventually(
      'a plan has no change',
      async () => {
        await startPods(cluster, namespace);
        const plan = await planOf(cluster, namespace);
        if (countChanges(plan, changeTypes) > 0) throw new Error(JSON.stringify(plan.objects.slice(0, 5)));
        return true;
      },
      timeoutMs,
    );
    log('without a change');
  } finally {
    await operator.stop();
  }
  const before = await versionsOf(cluster, namespace);
  const plan = await planOf(cluster, namespace);
  expect(plan.reconciled).toBe(all.length);
  expect(plan.objects.flatMap(({ writes }) => writes)).toEqual([]);
  expect(plan.objects.filter(({ externalCall }) => externalCall !== undefined)).toHaveLength(
    counts.pet + counts.postgresWriter,
  );
  expect(await versionsOf(cluster, namespace)).toEqual(before);
  return plan;
}

/** Prints when a phase of many objects has ended. */
function phases(objects: number): (phase: string) => void {
  const startedAtMs = performance.now();
  return (phase) => {
    if (objects >= 1000) console.log(`${objects} objects ${phase} after ${seconds(performance.now() - startedAtMs)}`);
  };
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** Waits by a watch until `count` objects of a kind have a status: lists of thousands would slow the operator down. */
async function waitForStatuses(
  client: TestCluster['client'],
  kind: Kind,
  namespace: string,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  const reported = new Set<string>();
  // A watch without a version begins with the objects that exist. It may end at any time.
  while (reported.size < count) {
    for await (const { type, object } of client.watch(kind, { namespace, timeoutSeconds: 600, signal })) {
      if (type !== 'BOOKMARK' && 'status' in object) reported.add(object.metadata.name);
      if (reported.size >= count) return;
    }
  }
}

/** Starts the pods that nothing has started, because a pod that does not start in time changes a status. */
async function startPods({ client }: TestCluster, namespace: string): Promise<void> {
  const conditions = [{ type: 'Ready', status: 'True' }];
  const pods = (await client.list(Pod, { namespace })).items.filter(({ status }) => status?.phase === 'Pending');
  await forEachConcurrently(pods, ({ metadata }) =>
    client.mergeStatus(Pod, metadata, { phase: 'Running', conditions }),
  );
  if (pods.length > 0) throw new Error(`${pods.length} pods had not started`);
}

/**
 * The versions of the objects that the operator reconciles, and the generations of their children, whose statuses other
 * controllers write. By name.
 */
async function versionsOf(cluster: TestCluster, namespace: string): Promise<ReadonlyMap<string, string>> {
  const kinds = new Set<Kind>(Object.values(controllers).flatMap(({ kind, children }) => [kind, ...children]));
  const own = new Set<Kind>(Object.values(controllers).map(({ kind }) => kind));
  const versions = new Map<string, string>();
  for (const kind of kinds)
    for (const { metadata } of (await cluster.client.list(kind, { namespace })).items)
      versions.set(
        `${kind.kind} ${metadata.name}`,
        own.has(kind) ? metadata.resourceVersion : `${metadata.uid} ${metadata.generation}`,
      );
  return versions;
}

/** Expects that each version of test/plan-versions does exactly what its plan says. */
export async function expectPlannedVersions(): Promise<void> {
  const folder = await makeRunFolder('plan-versions');
  const program = new URL('../../plan-versions/run.ts', import.meta.url).pathname;
  const { exitCode, stdout } = await execa(process.execPath, [program, folder], { reject: false });
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: expect.stringContaining('did exactly what') });
}
