import { setTimeout as delay } from 'node:timers/promises';
import { Job, ValidatingWebhookConfiguration } from '@echoperator/runtime/kinds';
import { everyRequest } from '../api-server.ts';
import type { Operator } from '../operators.ts';
import { mostRefusals } from '../requests.ts';
import type { Turn } from '../results.ts';
import { rankCorrelation } from '../statistics.ts';
import type { RunContext } from '../turns.ts';
import { busyNamespace, busyPrefix, Tenants } from './tenants.ts';

/**
 * How long the Jobs are refused after the last Echo exists: longer than our longest backoff, a minute. Otherwise no
 * retry of the last Echos would count.
 */
export const refusedMs = 70_000;

/** How long the operator has to recover. */
const recoveryMs = 60_000;

const webhookName = 'refuses-jobs';

/**
 * Measures a tenant's waits beside one whose Jobs the API server refuses, because their webhook is down. Then it
 * measures the requests that the failures cost, and the recovery when the webhook is removed.
 */
export async function refusedTurn(operator: Operator, context: RunContext): Promise<Turn> {
  const count = context.plan.refusedObjects;
  let createdMs = 0;
  let endMs = 0;
  const { turn, auditLog } = await Tenants.measure(
    operator,
    context,
    { auditPolicy: everyRequest },
    async (tenants) => {
      const { client } = tenants.server;
      await client.create(ValidatingWebhookConfiguration, refusingWebhook);
      const create = async () => {
        const names = await tenants.createBusy(count);
        createdMs = Date.now();
        await delay(refusedMs, undefined, { signal: context.signal });
        return names;
      };
      const [names, waits] = await tenants.quietWhile(create, ['refusedP50', 'refusedP99']);
      endMs = Date.now();
      const recovered = await recoveredJobs(tenants, names.length, context.signal);
      const ages = new Map(names.map((name, age) => [name, age]));
      return {
        ...waits,
        recoveredShare: (100 * recovered.length) / count,
        // With fewer there is no order to speak of.
        ...(recovered.length > 10 && { recoveryOrder: rankCorrelation(recovered.map((name) => ages.get(name) ?? 0)) }),
      };
    },
  );
  const refusedPerSecond = await mostRefusals(auditLog, busyPrefix, { fromMs: createdMs, toMs: endMs });
  return { ...turn, figures: { ...turn.figures, refusedPerSecond } };
}

/** Nothing listens on its port. Only creations of Jobs of the busy tenant need it. */
const refusingWebhook = {
  metadata: { name: webhookName },
  webhooks: [
    {
      name: 'jobs.bench.mmontes.io',
      admissionReviewVersions: ['v1'],
      sideEffects: 'None',
      failurePolicy: 'Fail',
      timeoutSeconds: 1,
      clientConfig: { url: 'https://127.0.0.1:9/' },
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': busyNamespace } },
      rules: [{ apiGroups: ['batch'], apiVersions: ['v1'], resources: ['jobs'], operations: ['CREATE'] }],
    },
  ],
};

/** Removes the webhook. @returns the names of the tenant's Jobs after a minute or when there are `count`, in order */
async function recoveredJobs({ server }: Tenants, count: number, signal: AbortSignal): Promise<readonly string[]> {
  const { client } = server;
  const { metadata } = await client.list(Job, { namespace: busyNamespace, limit: 1 });
  await client.delete(ValidatingWebhookConfiguration, { name: webhookName });
  const late = AbortSignal.timeout(recoveryMs);
  const names: string[] = [];
  let last = metadata.resourceVersion;
  try {
    while (names.length < count) {
      const events = client.watch(Job, {
        namespace: busyNamespace,
        resourceVersion: last,
        timeoutSeconds: 3600,
        signal: AbortSignal.any([signal, late]),
      });
      for await (const { type, object } of events) {
        last = object.metadata.resourceVersion;
        if (type === 'ADDED') names.push(object.metadata.name);
        if (names.length === count) break;
      }
    }
  } catch (error) {
    if (!late.aborted || signal.aborted) throw error;
  }
  return names;
}
