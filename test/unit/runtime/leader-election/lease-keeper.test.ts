import { afterEach, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../../src/runtime/kind/index.ts';
import { Fence } from '../../../../src/runtime/leader-election/fence.ts';
import { LeaseKeeper } from '../../../../src/runtime/leader-election/lease-keeper.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { electionLease, heldBy, slowTimings } from '../../environment/election.ts';

const descriptionAnnotation = 'example.com/holder';
const fence = new Fence(60_000);
afterEach(() => fence.close(new Error('the test is over')));

/** A server that stores each write unchanged. */
class StoredLease {
  #lease = {
    ...heldBy('other', '1'),
    metadata: {
      ...heldBy('other', '1').metadata,
      annotations: { note: 'kept', [descriptionAnnotation]: 'of another holder' },
    },
  } as unknown;

  get annotations(): Readonly<Record<string, string>> | undefined {
    return (this.#lease as KubeObject).metadata.annotations;
  }

  get client() {
    const write = async <T extends KubeObject>(_: unknown, lease: unknown) => {
      this.#lease = lease;
      return lease as T;
    };
    return { get: async <T extends KubeObject>() => this.#lease as T, create: write, update: write };
  }
}

test('describes the holder from the renewal after publish on, and removes the description of the holder before', async () => {
  const stored = new StoredLease();
  const keeper = new LeaseKeeper({
    client: stored.client,
    lease: electionLease,
    identity: 'me',
    timings: slowTimings,
    fence,
    descriptionAnnotation,
    log: new RecordingLog(),
  });
  await keeper.acquire(await stored.client.get());
  expect(stored.annotations).toEqual({ note: 'kept' });
  keeper.publish('container 1');
  expect(stored.annotations).toEqual({ note: 'kept' });
  await keeper.acquire(await stored.client.get());
  expect(stored.annotations).toEqual({ note: 'kept', [descriptionAnnotation]: 'container 1' });
  await keeper.release();
  expect(stored.annotations).toEqual({ note: 'kept' });
});
