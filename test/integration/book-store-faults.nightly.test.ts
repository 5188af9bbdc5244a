import { Lease } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, beforeEach, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import {
  askForMore,
  at,
  growsThroughFaults,
  hasGrown,
  isClaimPatch,
  running,
  setUpFaults,
  start,
  tearDownFaults,
  unavailable,
} from './environment/book-store-faults-world.ts';
import { cluster, growOnline, setUp, tearDown } from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-faults', { operator: false }));
afterAll(() => tearDown());
beforeEach(() => setUpFaults());
afterEach(() => tearDownFaults());

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
  const held = unavailable(isClaimPatch);
  await askForMore();
  await eventually('the first leader tries to grow a claim', async () => held.count > 0);
  await first.stop('SIGKILL');
  await eventually('second leads', async () => (await holder()) === 'second');
  held.off();
  await growOnline(at, '2Gi', [0, 1]);
  await hasGrown(before);
}, 240_000);

test(
  'a growth comes to its end through lost answers, failed requests and watches that break off',
  () => growsThroughFaults({ cutWatches: true }),
  480_000,
);
