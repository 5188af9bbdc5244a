import { done } from '@echoperator/runtime';
import { type HealthChecks, Liveness, type LivenessOptions, probeRoutes } from '@echoperator/runtime/process';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { eventually } from '../../../../testkit/eventually.ts';
import { stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { Managed } from '../../environment/managed.ts';

const ready = { readiness: () => ({ ready: true, waitingFor: [] }) };
const healthy = { code: 200, text: 'ok\n' };

let liveness: Liveness;
const start = (options: LivenessOptions = {}, subject: ConstructorParameters<typeof Liveness>[0] = {}): Liveness => {
  liveness = new Liveness(subject, options);
  return liveness;
};
afterEach(() => liveness.stop());

const probe = async () => probeRoutes(ready, liveness)['/healthz']();

describe('/healthz', () => {
  test('is 200 while there are no problems', async () => {
    start();
    expect(await probe()).toEqual(healthy);
  });

  test('fails for a while after the event loop was blocked for too long', async () => {
    start({ maxEventLoopDelayMs: 100 });
    const until = performance.now() + 300;
    while (performance.now() < until);
    expect(await probe()).toEqual({
      code: 503,
      text: expect.stringMatching(/^event loop: blocked for \d+ ms\n$/),
    });
    await eventually('it is over', async () => (await probe()).code === 200);
  });

  test('fails for each caller after the same delay', async () => {
    start({ maxEventLoopDelayMs: 100 });
    const until = performance.now() + 300;
    while (performance.now() < until);
    expect((await probe()).code).toBe(503);
    expect((await probe()).code).toBe(503);
  });

  test('fails for a check that does not end, and does not run it twice concurrently', async () => {
    let runs = 0;
    const ended = Promise.withResolvers<void>();
    const checks: HealthChecks = {
      disk: () => {
        runs += 1;
        return ended.promise;
      },
    };
    start({ checks, checkTimeoutMs: 20 });
    const stuck = { code: 503, text: 'disk: the check did not end within 20 ms\n' };
    expect(await Promise.all([probe(), probe()])).toEqual([stuck, stuck]);
    expect(await probe()).toEqual(stuck);
    expect(runs).toBe(1);
    ended.resolve();
    await eventually('the check is run again', async () => (await probe()).code === 200 && runs === 2);
  });

  test('fails while a check fails, with the message of the check', async () => {
    let isBroken = true;
    const checks: HealthChecks = {
      disk: async () => {
        if (isBroken) throw new Error('it is full');
      },
      other: () => {},
    };
    start({ checks });
    expect(await probe()).toEqual({ code: 503, text: 'disk: it is full\n' });
    isBroken = false;
    expect(await probe()).toEqual(healthy);
  });
});

describe('overruns', () => {
  let managed: Managed;
  beforeEach(async () => {
    managed = await Managed.start({ drainTimeoutMs: 10 });
  });
  afterEach(() => managed.close());

  test('a reconcile that runs long after its time limit fails /healthz, until it ends', async () => {
    const ended = Promise.withResolvers<void>();
    let begun = 0;
    managed.manager.controller(Widget, {
      reconcileTimeoutMs: 10,
      reconcile: async () => {
        begun += 1;
        // The first does not listen to its signal.
        if (begun === 1) await ended.promise;
        return done;
      },
    });
    start({ maxOverrunMs: 50 }, managed.manager);
    expect(await probe()).toEqual(healthy);
    managed.run();
    await managed.sync({ [widgetsPath]: { resourceVersion: '10', items: [stored('a', '1')] } });
    await eventually('the worker is told of', async () => (await probe()).code === 503);
    expect((await probe()).text).toMatch(
      /^workers: controller widget: a reconcile still runs \d+ s after its time limit\n$/,
    );
    ended.resolve();
    await eventually('it is done', async () => (await probe()).code === 200);
  });
});
