import {
  done,
  keyString,
  type ObjectKey,
  type ReconcileContext,
  type Result,
  requeueAfter,
  retry,
  TerminalError,
  watches,
} from '@echoperator/runtime';
import type { Delta } from '@echoperator/runtime/cache';
import { ApiError } from '@echoperator/runtime/client';
import type { ControllerOptions } from '@echoperator/runtime/controller';
import { LeadershipLostError } from '@echoperator/runtime/leader-election';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { eventually } from '../../../../testkit/eventually.ts';
import { stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { Managed } from '../../environment/managed.ts';

let managed: Managed;
let setTimer: jest.SpiedFunction<typeof setTimeout>;
/** The keys of all reconciles begun, and when. */
let begun: { readonly key: string; readonly atMs: number }[];

beforeEach(async () => {
  // No jitter: a pause is what it says.
  jest.spyOn(Math, 'random').mockReturnValue(0);
  setTimer = jest.spyOn(globalThis, 'setTimeout');
  managed = await Managed.start();
  begun = [];
});
afterEach(async () => {
  jest.useRealTimers();
  await managed.close();
  jest.restoreAllMocks();
});

type Act = (key: string, context: ReconcileContext) => Result | Promise<Result>;

/** Runs a controller over these objects; `act` is its reconcile. */
async function controller(names: readonly string[], act: Act, options: Partial<ControllerOptions<Widget>> = {}) {
  managed.manager.controller(Widget, {
    ...options,
    reconcile: async (key: ObjectKey, context) => {
      begun.push({ key: keyString(key), atMs: performance.now() });
      return act(key.name, context);
    },
  });
  managed.run();
  const items = names.map((name, index) => stored(name, String(index + 1)));
  return (await managed.sync({ [widgetsPath]: { resourceVersion: '10', items } }))[widgetsPath];
}

const times = (name: string): number => begun.filter(({ key }) => key === `default/${name}`).length;
const reconciled = (name: string, count: number): Promise<boolean> =>
  eventually(`${name} is reconciled ${count} times`, async () => times(name) >= count);
const result = (outcome: string): Promise<number> =>
  managed.metric('controller_runtime_reconcile_total', { controller: 'widget', result: outcome });
/** The pauses that the queue has asked for, by the pauses that it can ask for first. */
const pausesMs = (): unknown[] =>
  setTimer.mock.calls.map(([, delayMs]) => delayMs).filter((delayMs) => [5, 10, 20, 40].includes(Number(delayMs)));
const errors = (): string[] => managed.log.messages('error');

/** Fails as often as it takes for others to have been tried again too, were they to be. */
const failsThrice: Act = (name) => {
  if (times(name) <= 3) throw new Error('not yet');
  return done;
};

describe('a reconcile', () => {
  test('is called for each key, with a log that names the controller and the object', async () => {
    await controller(['a', 'b'], (name, { log }) => {
      log.info({ name }, 'seen');
      return done;
    });
    await reconciled('b', 1);
    expect(begun.map(({ key }) => key)).toEqual(['default/a', 'default/b']);
    expect(managed.log.lines.filter(({ message }) => message === 'seen').map(({ details }) => details)).toEqual([
      { controller: 'widget', object: 'default/a', reconcileID: expect.any(String), name: 'a' },
      { controller: 'widget', object: 'default/b', reconcileID: expect.any(String), name: 'b' },
    ]);
  });

  test('lets timers and I/O run, even if thousands of reconciles send no request', async () => {
    const names = Array.from({ length: 100 }, (_, index) => `widget-${index}`);
    let turns = 0;
    let turn: NodeJS.Immediate | undefined;
    const count = (): void => {
      turns += 1;
      turn = setImmediate(count);
    };
    await controller(names, () => {
      if (turn === undefined) count();
      const since = performance.now();
      while (performance.now() - since < 2);
      return done;
    });
    await reconciled('widget-99', 1);
    clearImmediate(turn);
    // 100 reconciles take 200 ms.
    expect(turns).toBeGreaterThan(4);
  });

  test('has an id in its log lines, which no other reconcile has', async () => {
    const stream = await controller(['a'], (_, { log }) => {
      log.info({}, 'one');
      log.info({}, 'two');
      return done;
    });
    await reconciled('a', 1);
    stream.send('MODIFIED', stored('a', '11'));
    await reconciled('a', 2);
    const lines = managed.log.lines.filter(({ message }) => ['one', 'two'].includes(message));
    const ids = lines.map(({ details }) => details.reconcileID);
    expect(ids).toEqual([ids[0], ids[0], ids[2], ids[2]]);
    expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(ids[2]).not.toBe(ids[0]);
  });

  test('is called for an addition, a change and a deletion', async () => {
    const stream = await controller([], () => done);
    stream.send('ADDED', stored('a', '11'));
    await reconciled('a', 1);
    stream.send('MODIFIED', stored('a', '12'));
    await reconciled('a', 2);
    stream.send('DELETED', stored('a', '13'));
    await reconciled('a', 3);
    expect(await result('success')).toBe(3);
  });

  test('is not called for a key that does not fit the scope of the kind, which is logged', async () => {
    const withoutNamespace = watches(Widget, ({ metadata }) => [{ name: metadata.name }]);
    await controller(['a'], () => done, { watches: [withoutNamespace] });
    await reconciled('a', 1);
    expect(begun.map(({ key }) => key)).toEqual(['default/a']);
    const [line] = managed.log.lines.filter(({ level }) => level === 'error');
    expect(line?.details.err).toEqual(new TypeError('widgets.test.example a is namespaced: set metadata.namespace'));
  });

  test('is not called for a change that the predicate rejects', async () => {
    const stream = await controller(['left-out', 'a'], () => done, {
      predicate: ({ object }) => object.metadata.name !== 'left-out',
    });
    stream.send('MODIFIED', stored('left-out', '11'));
    stream.send('ADDED', stored('b', '12'));
    await reconciled('b', 1);
    expect(begun.map(({ key }) => key)).toEqual(['default/a', 'default/b']);
  });

  test('never runs concurrently for one key, and runs again for a change during the reconcile', async () => {
    let underWay = 0;
    const gate = Promise.withResolvers<void>();
    const stream = await controller(['a'], async (name) => {
      if (name === 'b') return done;
      underWay += 1;
      expect(underWay).toBe(1);
      if (times('a') === 1) await gate.promise;
      underWay -= 1;
      return done;
    });
    await reconciled('a', 1);
    stream.send('MODIFIED', stored('a', '11'));
    stream.send('MODIFIED', stored('a', '12'));
    stream.send('ADDED', stored('b', '13'));
    await reconciled('b', 1);
    expect(times('a')).toBe(1);
    gate.resolve();
    await reconciled('a', 2);
    expect(errors()).toEqual([]);
  });

  test('runs concurrently for as many keys as there are workers', async () => {
    const gate = Promise.withResolvers<void>();
    await controller(
      ['a', 'b', 'c'],
      async () => {
        await gate.promise;
        return done;
      },
      { workers: 2 },
    );
    await reconciled('b', 1);
    expect(await managed.metric('controller_runtime_active_workers', { controller: 'widget' })).toBe(2);
    expect(await managed.metric('workqueue_depth', { name: 'widget', priority: '-100' })).toBe(1);
    expect(times('c')).toBe(0);
    gate.resolve();
    await reconciled('c', 1);
  });

  test('of a named controller has that name in logs and metrics', async () => {
    await controller(['a'], () => done, { name: 'sprocket' });
    await reconciled('a', 1);
    await eventually('it is counted', async () => {
      const labels = { controller: 'sprocket', result: 'success' };
      return (await managed.metric('controller_runtime_reconcile_total', labels)) === 1;
    });
  });
});

describe('a reconcile that ends', () => {
  test('with an error is retried with doubling pauses, and logs an error each time', async () => {
    await controller(['a'], failsThrice);
    await reconciled('a', 4);
    expect(pausesMs()).toEqual([5, 10, 20]);
    expect(errors()).toEqual(Array(3).fill('reconcile failed: trying again'));
    expect(managed.log.lines.find(({ level }) => level === 'error')?.details).toMatchObject({
      controller: 'widget',
      object: 'default/a',
      err: { message: 'not yet' },
    });
    await eventually('all are counted', async () => (await result('success')) === 1);
    expect(await result('error')).toBe(3);
    expect(await managed.metric('workqueue_retries_total', { name: 'widget' })).toBe(3);
  });

  test('with a success resets the pauses', async () => {
    const stream = await controller(['a'], (name) => {
      if (times(name) === 3 || times(name) === 6) return done;
      throw new Error('not yet');
    });
    await reconciled('a', 3);
    stream.send('MODIFIED', stored('a', '11'));
    await reconciled('a', 6);
    expect(pausesMs()).toEqual([5, 10, 5, 10]);
  });

  test('with a synchronous throw counts as failed', async () => {
    managed.manager.controller(Widget, {
      reconcile: ({ name }) => {
        begun.push({ key: `default/${name}`, atMs: performance.now() });
        if (times('a') === 1) throw new Error('synchronous');
        return Promise.resolve(done);
      },
    });
    managed.run();
    await managed.sync({ [widgetsPath]: { resourceVersion: '10', items: [stored('a', '1')] } });
    await reconciled('a', 2);
    expect(errors()).toEqual(['reconcile failed: trying again']);
  });

  test('with retry is retried with backoff, and logs no error', async () => {
    await controller(['a'], () => (times('a') <= 3 ? retry(new Error('exceeded quota')) : done));
    await reconciled('a', 4);
    expect(pausesMs()).toEqual([5, 10, 20]);
    expect(errors()).toEqual([]);
    expect(managed.log.messages('debug')).toContain('the status reports the failure: retrying with backoff');
    expect(await result('error')).toBe(3);
  });

  test('of an object that cannot be read whole fails by name, once per change of the object; others go on', async () => {
    const predicate = jest.fn(({ object }: Delta<Widget>) => object.spec?.size !== 3);
    const sizes: string[] = [];
    const stream = await controller(
      ['a'],
      (name) => {
        const widget = managed.manager.informer(Widget).store.get({ namespace: 'default', name });
        sizes.push(`${name} ${widget?.spec?.size}`);
        return done;
      },
      { predicate },
    );
    const deep = (resourceVersion: string): string =>
      `${JSON.stringify(stored('deep', resourceVersion)).slice(0, -1)},"spec":${'['.repeat(9900)}${']'.repeat(9900)}}`;
    stream.write(`{"type":"ADDED","object":${deep('11')}}\n`);
    await reconciled('deep', 1);
    stream.write(`{"type":"MODIFIED","object":${deep('12')}}\n`);
    await reconciled('deep', 2);
    stream.send('ADDED', stored('b', '13'));
    await reconciled('b', 1);
    stream.send('MODIFIED', { ...stored('deep', '14'), spec: { size: 2 } });
    await reconciled('deep', 3);
    expect(sizes).toEqual(['a undefined', 'b undefined', 'deep 2']);
    expect(times('deep')).toBe(3);
    const problem = 'Widget default/deep: .spec is nested more than 500 levels deep: simplify it, or delete the object';
    const failed = managed.log.lines.filter(({ level }) => level === 'error');
    expect(failed.map(({ message, details }) => [message, (details.err as Error).message])).toEqual([
      ['reconcile failed with a terminal error: not retried', problem],
      ['reconcile failed with a terminal error: not retried', problem],
    ]);
    expect(await managed.metric('informer_unreadable_objects', { resource: 'widgets.test.example' })).toBe(0);
  });

  test('with a TerminalError is logged, counted, and not retried until the object changes', async () => {
    const act: Act = (name) => {
      if (name === 'a') throw new TerminalError('bad spec');
      return failsThrice(name, undefined as never);
    };
    const stream = await controller(['a', 'b'], act);
    await reconciled('b', 4);
    expect(times('a')).toBe(1);
    expect(errors()).toContain('reconcile failed with a terminal error: not retried');
    expect(await result('error')).toBe(4);
    stream.send('MODIFIED', stored('a', '11'));
    await reconciled('a', 2);
  });

  const terminatingIn = (namespace: string) =>
    new ApiError(`POST /api/v1/namespaces/${namespace}/pods`, 403, {
      reason: 'Forbidden',
      details: { causes: [{ reason: 'NamespaceTerminating' }] },
    });

  test('with a write refused by another terminating namespace is retried', async () => {
    await controller(['a'], (name) => {
      if (times(name) < 3) throw terminatingIn('elsewhere');
      return done;
    });
    await reconciled('a', 3);
    expect(await result('error')).toBe(2);
  });

  test('with a write refused by its own terminating namespace is neither logged nor retried', async () => {
    const terminating = terminatingIn('default');
    const act: Act = (name) => {
      if (name === 'a') throw terminating;
      return failsThrice(name, undefined as never);
    };
    await controller(['a', 'b'], act);
    await reconciled('b', 4);
    expect(times('a')).toBe(1);
    expect(managed.log.lines.filter(({ details }) => details.object === 'default/a')).toEqual([]);
    await eventually('both are counted as successes', async () => (await result('success')) === 2);
  });

  test('with a closed gate logs no error and is not retried', async () => {
    await controller(['a', 'b'], (name) => {
      if (name === 'a') throw new LeadershipLostError('another may lead');
      return failsThrice(name, undefined as never);
    });
    await reconciled('b', 4);
    expect(times('a')).toBe(1);
    expect(
      managed.log.lines.filter(({ level, details }) => level === 'error' && details.object === 'default/a'),
    ).toEqual([]);
  });

  test.each(['Conflict', 'AlreadyExists'])('with a 409 %s is retried, and logs no error', async (reason) => {
    await controller(['a'], (name) => {
      if (times(name) === 1) throw new ApiError('PATCH /x', 409, { reason });
      return done;
    });
    await reconciled('a', 2);
    expect(errors()).toEqual([]);
    expect(managed.log.messages('debug')).toContain('conflict: retrying');
    expect(await result('error')).toBe(1);
  });

  test('with requeueAfter is repeated after the delay', async () => {
    await controller(['a'], (name) => (times(name) === 1 ? requeueAfter(30) : done));
    await reconciled('a', 2);
    expect(Number(begun[1]?.atMs) - Number(begun[0]?.atMs)).toBeGreaterThanOrEqual(29);
    expect(await result('requeue_after')).toBe(1);
    expect(await managed.metric('workqueue_retries_total', { name: 'widget' })).toBe(1);
  });

  test.each([Number.NaN, -1, Number.POSITIVE_INFINITY, 1e15])('with requeueAfter(%d) throws', (delayMs) => {
    expect(() => requeueAfter(delayMs)).toThrow(
      new RangeError(
        `delayMs of requeueAfter must be from 0 to 10000000000000, is ${delayMs}: return done to wait for a change`,
      ),
    );
  });
});

describe('a reconcile that exceeds its time limit', () => {
  test('is aborted, counted, and retried only after it has ended', async () => {
    const reasons: unknown[] = [];
    let underWay = 0;
    const act: Act = async (name, { signal }) => {
      if (times(name) > 1) return done;
      underWay += 1;
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      reasons.push((signal.reason as Error).name);
      await eventually('a long while', async () => true);
      expect(times(name)).toBe(1);
      underWay -= 1;
      // Whatever it says: its time was over.
      return done;
    };
    await controller(['a'], act, { reconcileTimeoutMs: 30 });
    await reconciled('a', 2);
    expect(underWay).toBe(0);
    expect(reasons).toEqual(['TimeoutError']);
    expect(errors()).toEqual(['reconcile failed: trying again']);
    expect(await result('error')).toBe(1);
    expect(await managed.metric('controller_runtime_reconcile_timeouts_total', { controller: 'widget' })).toBe(1);
    expect(pausesMs()).toEqual([5]);
  });

  test('is told to the next reconcile of the key, and to no other', async () => {
    const failed: ReconcileContext['priorFailures'][] = [];
    const act: Act = async (name, { signal, ...context }) => {
      failed.push(context.priorFailures);
      if (times(name) === 2) throw new Error('no');
      if (times(name) > 2) return done;
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      throw signal.reason;
    };
    await controller(['a'], act, { reconcileTimeoutMs: 30 });
    await reconciled('a', 3);
    expect(failed.map((each) => each?.count)).toEqual([undefined, 1, 2]);
    expect(failed.map((each) => (each?.timeout as Error | undefined)?.name)).toEqual([
      undefined,
      'TimeoutError',
      undefined,
    ]);
    expect(failed[2]?.since).toEqual(failed[1]?.since);
  });

  test.each<[string, () => unknown]>([
    [
      'its namespace is being deleted',
      () =>
        new ApiError('POST /apis/batch/v1/namespaces/default/jobs', 403, {
          reason: 'Forbidden',
          details: { causes: [{ reason: 'NamespaceTerminating' }] },
        }),
    ],
    ['the fence has closed', () => new LeadershipLostError('the lease is lost')],
  ])('is not retried if %s', async (_, error) => {
    const act: Act = async (_name, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      throw error();
    };
    await controller(['a'], act, { reconcileTimeoutMs: 30 });
    await reconciled('a', 1);
    await eventually('its end', async () => (await result('success')) + (await result('error')) === 1);
    expect(errors()).toEqual([]);
    expect(pausesMs()).toEqual([]);
  });

  test('does not keep its worker: other keys are reconciled, and its own is not before it has ended', async () => {
    const end = Promise.withResolvers<void>();
    const act: Act = async (name) => {
      if (name === 'a' && times('a') === 1) await end.promise;
      return done;
    };
    const stream = await controller(['a'], act, { reconcileTimeoutMs: 30, workers: 1 });
    await reconciled('a', 1);
    stream?.send('ADDED', stored('b', '20'));
    await reconciled('b', 1);
    stream?.send('MODIFIED', stored('a', '21', { labels: { x: 'y' } }));
    stream?.send('ADDED', stored('c', '22'));
    await reconciled('c', 1);
    expect(times('a')).toBe(1);
    end.resolve();
    await reconciled('a', 2);
  });

  test('that goes on for long is logged, and the stop waits for it', async () => {
    const end = Promise.withResolvers<void>();
    const isLogging = ([, delayMs]: (typeof setTimer.mock.calls)[number]): boolean => delayMs === 10_000;
    await controller(['a'], () => end.promise.then(() => done), { reconcileTimeoutMs: 30, workers: 1 });
    const [log] = await eventually('the timer', async () => {
      const found = setTimer.mock.calls.find(isLogging);
      return found !== undefined && [found[0]];
    });
    log?.();
    expect(errors()).toEqual(['a reconcile goes on after its time limit: its key waits until it ends']);
    managed.abort();
    expect(await Promise.race([managed.ended.then(() => 'ended'), result('success').then(() => 'waiting')])).toBe(
      'waiting',
    );
    end.resolve();
    await managed.ended;
    expect(await result('error')).toBe(1);
  });

  test.each([0, -1, Number.NaN, 2 ** 31])('cannot have a limit of %d ms', (reconcileTimeoutMs) => {
    expect(() => managed.manager.controller(Widget, { reconcileTimeoutMs, reconcile: async () => done })).toThrow(
      `reconcileTimeoutMs must be above 0 and at most 2147483647 ms, is ${reconcileTimeoutMs}`,
    );
  });
});

describe('a reconcile that throws', () => {
  test.each<[string, unknown, number]>([
    ['a TypeError', new TypeError('x is not a function'), 1],
    ['a value that is not an Error', 'a word', 1],
    ['undefined', undefined, 1],
    ['an Error', new Error('the API server is away'), 0],
  ])('%s is retried and, if it is a programming error, counted as a panic', async (_, thrown, panics) => {
    await controller(['a'], (name) => {
      if (times(name) === 1) throw thrown;
      return done;
    });
    await reconciled('a', 2);
    expect(errors()).toEqual(['reconcile failed: trying again']);
    expect(await managed.metric('controller_runtime_reconcile_panics_total', { controller: 'widget' })).toBe(panics);
    expect(await result('error')).toBe(1);
  });

  test('a Conflict is logged as a warning once conflicts persist', async () => {
    const conflict = new ApiError('PUT /', 409, { code: 409, reason: 'Conflict' });
    const others = ['hrtime', 'performance', 'nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate'] as const;
    const timers = ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] as const;
    jest.useFakeTimers({ now: 0, doNotFake: [...others, ...timers] });
    await controller(['a'], (name) => {
      if (times(name) === 4) jest.setSystemTime(5000);
      if (times(name) <= 4) throw conflict;
      return done;
    });
    await reconciled('a', 5);
    const logged = managed.log.lines.filter(({ details }) => details.err === conflict);
    expect(logged.map(({ level }) => level)).toEqual(['debug', 'debug', 'debug', 'warn']);
  });

  test('a TerminalError is counted as terminal', async () => {
    await controller(['a'], () => {
      throw new TerminalError('bad spec');
    });
    await eventually('it is counted', async () => {
      const label = { controller: 'widget' };
      return (await managed.metric('controller_runtime_terminal_reconcile_errors_total', label)) === 1;
    });
  });
});

describe('a key is enqueued', () => {
  test('by a source, from the sync of the caches until the controller stops', async () => {
    let stopped = false;
    await controller(['a'], () => done, {
      sources: [
        (enqueue, signal) => {
          expect(managed.manager.readiness().ready).toBe(true);
          enqueue({ name: 'external', namespace: 'default' });
          signal.addEventListener('abort', () => {
            stopped = true;
          });
        },
      ],
    });
    await reconciled('external', 1);
    managed.abort();
    await managed.ended;
    expect(stopped).toBe(true);
  });

  test('by an async iterable, which does not delay the stop of the controller', async () => {
    await controller([], () => done, {
      sources: [
        async function* () {
          yield { name: 'x', namespace: 'default' };
          yield { name: 'y', namespace: 'default' };
          await new Promise(() => {});
        },
      ],
    });
    await reconciled('y', 1);
    managed.abort();
    await managed.ended;
    expect(times('x')).toBe(1);
  });

  test('by a source that failed and was called again', async () => {
    let begins = 0;
    await controller([], () => done, {
      sources: [
        async (enqueue) => {
          begins += 1;
          if (begins === 1) throw new Error('the stream broke');
          enqueue({ namespace: 'default', name: 'again' });
        },
      ],
    });
    await eventually('it is reconciled', async () => begun.some(({ key }) => key === 'default/again'));
    expect(managed.log.messages('warn')).toEqual(['a key source failed: trying again']);
  });

  test('by a generator that threw and was created again', async () => {
    let begins = 0;
    await controller([], () => done, {
      sources: [
        async function* () {
          begins += 1;
          yield { namespace: 'default', name: `of-${begins}` };
          if (begins === 1) throw new Error('the stream broke');
        },
      ],
    });
    await eventually('it is reconciled', async () => begun.some(({ key }) => key === 'default/of-2'));
    expect(managed.log.messages('warn')).toEqual(['a key source failed: trying again']);
  });

  test('by each resync, for every object', async () => {
    await controller(['a', 'b'], () => done, { resyncEveryMs: 10 });
    await reconciled('a', 4);
    await reconciled('b', 4);
  });

  test('by a list with a lower priority than by a watch', async () => {
    const gate = Promise.withResolvers<void>();
    const act: Act = async () => {
      await gate.promise;
      return done;
    };
    const stream = await controller(['a', 'b', 'c'], act, { workers: 1 });
    await reconciled('a', 1);
    stream.send('ADDED', stored('live', '11'));
    await eventually('it waits', async () => {
      return (await managed.metric('workqueue_depth', { name: 'widget', priority: '0' })) === 1;
    });
    gate.resolve();
    await reconciled('c', 1);
    expect(begun.map(({ key }) => key)).toEqual(['default/a', 'default/live', 'default/b', 'default/c']);
  });
});
