import { setImmediate } from 'node:timers/promises';
import type { KubeObject } from '@echoperator/runtime';
import type { List, WatchEvent } from '@echoperator/runtime/client';
import type { Lease } from '@echoperator/runtime/kinds';
import { afterEach, expect, jest, test } from '@jest/globals';
import type { Standby } from '../../../../packages/runtime/src/leader-election/standby.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { electionLease, heldBy, slowTimings } from '../../environment/election.ts';

/** The pending pauses. Time advances only when a test says so. */
const pauses = new Set<{ readonly untilMs: number; end(): void }>();
let nowMs = 0;

/** Like the runtime's, on the clock above. */
function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const one = { untilMs: nowMs + ms, end: resolve };
    pauses.add(one);
    signal?.addEventListener('abort', () => pauses.delete(one) && resolve(), { once: true });
  });
}

/** Advances the clock to the end of the next pause, and lets all continuations run. */
async function untilNextPauseEnds(): Promise<void> {
  nowMs = Math.min(...[...pauses].map(({ untilMs }) => untilMs));
  for (const one of [...pauses].filter(({ untilMs }) => untilMs <= nowMs)) {
    pauses.delete(one);
    one.end();
  }
  await setImmediate();
}

jest.unstable_mockModule('../../../../packages/runtime/src/shared/pause.ts', () => ({ pause, nextTurn: setImmediate }));
const standbyModule = await import('../../../../packages/runtime/src/leader-election/standby.ts');

const standbys: Standby[] = [];
afterEach(async () => {
  await Promise.all(standbys.splice(0).map((standby) => standby.end()));
});

/** The API server's Lease. A write reaches all watches at once. */
class LeaseSource {
  readonly #watches = new Set<(lease: Lease) => void>();
  #lease = heldBy('first', '1') as unknown as Lease;

  async changeHolder(holderIdentity: string): Promise<void> {
    const version = Number(this.#lease.metadata.resourceVersion) + 1;
    this.#lease = heldBy(holderIdentity, String(version)) as unknown as Lease;
    for (const send of this.#watches) send(this.#lease);
    await setImmediate();
  }

  get client() {
    const lease = () => this.#lease;
    const watches = this.#watches;
    return {
      get: async <T extends KubeObject>() => lease() as unknown as T,
      list: async <T extends KubeObject>() =>
        ({ items: [lease()], metadata: { resourceVersion: lease().metadata.resourceVersion } }) as unknown as List<T>,
      async *watchBatches<T extends KubeObject>(_: unknown, { signal }: { readonly signal?: AbortSignal } = {}) {
        const sent: Lease[] = [];
        let wake = Promise.withResolvers<void>();
        const send = (one: Lease) => {
          sent.push(one);
          wake.resolve();
        };
        watches.add(send);
        signal?.addEventListener('abort', () => wake.resolve(), { once: true });
        while (signal?.aborted !== true) {
          await wake.promise;
          wake = Promise.withResolvers();
          const batch = sent.splice(0).map((object) => ({ type: 'MODIFIED', object }));
          yield batch as unknown as readonly WatchEvent<T>[];
        }
      },
    };
  }
}

test('of standbys that observe a release at the same time only one writes, if the others observe its claim during their pause', async () => {
  const source = new LeaseSource();
  const writing: string[] = [];
  const signal = new AbortController().signal;
  for (const identity of ['second', 'third', 'fourth', 'fifth']) {
    const standby = new standbyModule.Standby({
      client: source.client,
      lease: electionLease,
      identity,
      timings: slowTimings,
      log: new RecordingLog(),
      crashDetector: undefined,
      onNewLeader: () => {},
    });
    standbys.push(standby);
    void standby.waitUntilFree(signal).then(() => writing.push(identity));
  }
  await setImmediate();

  for (const round of [1, 2]) {
    await source.changeHolder('');
    expect(writing).toHaveLength(round - 1);
    await untilNextPauseEnds();
    expect(writing).toHaveLength(round);
    await source.changeHolder(writing.at(-1) ?? '');
    // The pauses of the other standbys: 50 ms at most.
    for (let pause = round; pause < 4; pause += 1) await untilNextPauseEnds();
    expect(writing).toHaveLength(round);
    expect(nowMs).toBeLessThanOrEqual(50 * round);
  }
});
