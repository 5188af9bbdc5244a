import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Lease } from '../../src/runtime/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import {
  at,
  deletions,
  grow,
  growsThroughFaults,
  hasGrown,
  isDeletion,
  isForgetting,
  isHandOver,
  kept,
  killedAt,
  running,
  setUpFaults,
  start,
  tearDownFaults,
  unavailable,
} from './environment/book-store-faults-world.ts';
import { cluster, setUp, tearDown } from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-faults', { operator: false }), 120_000);
afterAll(() => tearDown(), 120_000);
beforeEach(() => setUpFaults(), 60_000);
afterEach(() => tearDownFaults(), 60_000);

test.each([
  ['when what is kept is made, and the StatefulSet not yet deleted', isDeletion],
  ['when the StatefulSet is made anew, and not yet what it was to its managers', isHandOver],
  ['when the StatefulSet is made anew, and what was kept not yet gone', isForgetting],
])('an operator that is killed %s has a successor that goes on from there', (_, on) => killedAt(on), 240_000);

test('another leader goes on with a growth in the middle', async () => {
  // The chart lets an operator have its Lease in its own namespace alone.
  await tearDownFaults();
  await setUpFaults(cluster.kubeconfig);
  const quick = { HA_LEASE_DURATION_SECONDS: '4', HA_RENEW_DEADLINE_SECONDS: '3', HA_RETRY_PERIOD_SECONDS: '0.5' };
  const contend = (name: string) =>
    start({ ...quick, NAMESPACE: at.key.namespace, HA_ENABLED: 'true', HA_NODE_ID: name });
  const holder = async () => {
    const lease = await cluster.client.get(Lease, { namespace: at.key.namespace, name: 'echoperator' });
    return lease.spec?.holderIdentity?.split('_')[0];
  };
  const first = await contend('first');
  await eventually('first leads', async () => (await holder()) === 'first');
  await contend('second');
  const before = await running();
  const held = unavailable(isDeletion);
  await grow();
  await eventually('it is about to be made anew', async () => held.count > 0 && (await kept()) !== undefined, 60_000);
  await first.stop('SIGKILL');
  await eventually('second leads', async () => (await holder()) === 'second', 60_000);
  held.off();
  await hasGrown(before);
  expect(await deletions()).toHaveLength(1);
}, 240_000);

test(
  'a growth comes to its end through lost answers, refused requests and watches that break off',
  () => growsThroughFaults({ cutWatches: true }),
  480_000,
);
