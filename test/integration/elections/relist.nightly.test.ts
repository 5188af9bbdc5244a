import { join } from 'node:path';
import { ConfigMap } from '@echoperator/runtime/kinds';
import type { LeaseTimings } from '@echoperator/runtime/leader-election';
import { FaultProxy, isWatch } from '@echoperator/testing';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../../../testkit/eventually.ts';
import { Arena } from './environment/arena.ts';
import { CandidateProcess, ours } from './environment/candidate-process.ts';
import { markLabel, namespace } from './environment/history.ts';
import { readJournal } from './environment/journal.ts';

const relists = 3;

const timings: LeaseTimings = { leaseDurationSeconds: 2, renewDeadlineSeconds: 1.2, retryPeriodSeconds: 0.3 };

/** `RELIST_OBJECTS` sets the number of objects. */
const objects = Number(process.env.RELIST_OBJECTS ?? 50_000);

/** Creating an object takes a few milliseconds on two cores, listing it much less. */
const timeLimitMs = 120_000 + objects * 20;
let arena: Arena;
let proxy: FaultProxy;

beforeAll(async () => {
  arena = await Arena.open();
  proxy = await FaultProxy.start({ upstream: arena.server.connection });
  for (let from = 0; from < objects; from += 16) {
    const batch = Array.from({ length: Math.min(16, objects - from) }, (_, index) => `bulk-${from + index}`);
    await Promise.all(batch.map((name) => arena.client.create(ConfigMap, { metadata: { namespace, name } })));
  }
}, 180_000 + timeLimitMs);

afterAll(async () => {
  await proxy.close();
  await arena[Symbol.asyncDispose]();
});

test.each(['streamed', 'paged'] as const)(
  'a leader keeps renewing its Lease while its informer relists many objects (%s)',
  async (listing) => {
    const name = `lists-${listing}`;
    const journal = join(arena.folder, `${name}.jsonl`);
    const server = proxy.connection.server.href;
    const settings = { server, name, journal, locks: [name], timings, listing };
    await using leader = await CandidateProcess.start(ours(arena.programs, settings));
    /** Waits until the informer has delivered a new object, and so all objects before it. */
    const waitForList = async (mark: string): Promise<void> => {
      await arena.client.create(ConfigMap, { metadata: { namespace, name: mark, labels: { [markLabel]: mark } } });
      const isInJournal = async () =>
        (await readJournal(journal)).some((line) => line.type === 'mark' && line.mark === mark);
      await eventually(`the informer has ${mark}`, isInJournal, timeLimitMs);
    };
    await arena.heldBy(name, name);
    await waitForList(`${name}-first`);
    for (let count = 0; count < relists; count += 1) {
      const expired = proxy.inject(
        { type: 'error-event', status: 410, reason: 'Expired' },
        { on: (request) => isWatch(request) && request.resource === 'configmaps', times: 1 },
      );
      await eventually('the watch has expired', async () => expired.count === 1, timeLimitMs);
      await waitForList(`${name}-${count}`);
    }
    await leader.stop();
    const { tenures } = await arena.history();
    expect(tenures.get(name)).toHaveLength(1);
    const { renewedAt } = tenures.get(name)![0]!;
    const pauses = renewedAt.slice(1).map((at, index) => at - renewedAt[index]!);
    console.log(`${listing}: of ${pauses.length} renewals the longest pause is ${Math.round(Math.max(...pauses))} ms`);
    expect(Math.max(...pauses)).toBeLessThan(timings.renewDeadlineSeconds * 1000);
  },
  timeLimitMs * (relists + 1),
);
