import { findCondition } from '@echoperator/runtime';
import { Job } from '@echoperator/runtime/kinds';
import { expect } from '@jest/globals';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { echoManifest } from '../../../testkit/echos.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { jobsCreated, operatorWrites } from '../../../testkit/operator-writes.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';

/** An upper bound for the time of these functions, in milliseconds. */
export const timeLimitMs = (echos: number): number => 120_000 + echos * 300;

const namesOf = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}-${index}`);

async function createdJobs(cluster: TestCluster, namespace: string): Promise<ReadonlyMap<string, number>> {
  return jobsCreated(await operatorWrites(cluster.auditLog, namespace));
}

function createEchos(cluster: TestCluster, namespace: string, names: readonly string[]): Promise<void> {
  return forEachConcurrently(names, (name) =>
    cluster.client.create(Echo, echoManifest({ name, namespace }, { message: name })),
  );
}

/** Waits until every Echo in the namespace says that its Job prints. */
async function allPrinting(cluster: TestCluster, namespace: string, count: number): Promise<void> {
  const look = async (): Promise<boolean> => {
    const { items } = await cluster.client.list(Echo, { namespace });
    const printing = items.filter(({ status }) => findCondition(status?.conditions, 'Ready')?.reason === 'Printing');
    return printing.length === count;
  };
  await eventually(`${count} Echos have a Job`, look, timeLimitMs(count));
}

/** Creates Echos in a burst. Verifies that the operator creates each Job with one request. */
export async function expectBurst(cluster: TestCluster, count: number): Promise<void> {
  const operator = await OperatorProcess.start(cluster.kubeconfig);
  try {
    const namespace = await cluster.namespace();
    const names = namesOf('many', count);
    const startedAtMs = performance.now();
    await createEchos(cluster, namespace, names);
    await allPrinting(cluster, namespace, count);
    const seconds = (performance.now() - startedAtMs) / 1000;
    process.stdout.write(`${count} Echos, each with its Job and its status, after ${seconds.toFixed(1)} s\n`);
    expect(Object.fromEntries(await createdJobs(cluster, namespace))).toEqual(
      Object.fromEntries(names.map((name) => [name, 1])),
    );
    const { items } = await cluster.client.list(Job, { namespace });
    expect(items).toHaveLength(count);
  } finally {
    await operator.stop();
  }
}

/** Kills the operator three times while Echos are created. Verifies that each Job is created exactly once. */
export async function expectKillsSurvived(cluster: TestCluster, count: number): Promise<void> {
  const namespace = await cluster.namespace();
  const names = namesOf('restart', count);
  let operator = await OperatorProcess.start(cluster.kubeconfig);
  try {
    const creating = createEchos(cluster, namespace, names);
    for (const part of [0.1, 0.4, 0.7].map((share) => Math.ceil(share * count))) {
      await eventually(`${part} Jobs are there`, async () => (await createdJobs(cluster, namespace)).size >= part);
      await operator.stop('SIGKILL');
      operator = await OperatorProcess.start(cluster.kubeconfig);
    }
    await creating;
    await allPrinting(cluster, namespace, count);
    const { items } = await cluster.client.list(Job, { namespace });
    expect(items.map(({ metadata }) => metadata.name).sort()).toEqual([...names].sort());
    const twice = [...(await createdJobs(cluster, namespace))].filter(([, times]) => times > 1);
    expect(twice).toEqual([]);
  } finally {
    await operator.stop();
  }
}
