import { cleanedUp, done, finalizer, type Result, requeueAfter, retry } from '@echoperator/runtime';
import type { ObjectMeta } from '@echoperator/runtime/client';
import { isConflict } from '@echoperator/runtime/client';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { removeFinalizer } from '../../../../packages/runtime/src/controller/finalizer.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

const ours = 'test.example/ours';
const path = '/apis/test.example/v1/namespaces/default/widgets/a';
const deletionTimestamp = '2026-01-01T00:00:00Z';

let server: ScriptedServer;
let transport: Transport;
/** What was called, with the resourceVersion of the object that it was given. */
let calls: string[];

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  calls = [];
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const calling =
  <R>(name: string, result: () => R) =>
  async (object: Widget): Promise<R> => {
    calls.push(`${name} ${object.metadata.resourceVersion}`);
    return result();
  };

const reconcile = (
  metadata: Partial<ObjectMeta>,
  {
    applied = () => done,
    cleaned = () => cleanedUp,
  }: { applied?: () => Result; cleaned?: () => Result | typeof cleanedUp } = {},
): Promise<Result> =>
  finalizer({
    client: new HttpClient(transport, 'tester'),
    kind: Widget,
    object: stored('a', '7', metadata),
    name: ours,
    apply: calling('apply', applied),
    cleanup: calling('cleanup', cleaned),
  });

/** Takes the one write that is expected. */
async function written(finalizers: readonly string[]) {
  const request = await server.next({ method: 'PATCH', path });
  expect(request.headers['content-type']).toBe('application/json-patch+json');
  expect(request.body).toEqual([
    { op: 'add', path: '/metadata/resourceVersion', value: '7' },
    { op: 'add', path: '/metadata/finalizers', value: finalizers },
  ]);
  return request;
}

describe('finalizer, for an object that is not being deleted,', () => {
  test.each([[undefined], [['before', 'after']]])(
    'adds the finalizer after %j, and only then calls apply',
    async (others) => {
      const result = reconcile(others === undefined ? {} : { finalizers: others });
      const request = await written([...(others ?? []), ours]);
      expect(calls).toEqual([]);
      request.json(200, stored('a', '8', { finalizers: [...(others ?? []), ours] }));
      expect(await result).toBe(done);
      expect(calls).toEqual(['apply 8']);
    },
  );

  test('calls apply without a request if the object has the finalizer', async () => {
    expect(await reconcile({ finalizers: ['other', ours] }, { applied: () => requeueAfter(10) })).toEqual(
      requeueAfter(10),
    );
    expect(calls).toEqual(['apply 7']);
    expect(server.unclaimed).toBe(0);
  });

  test('does not call apply if the object no longer exists when the finalizer is added', async () => {
    const result = reconcile({});
    (await written([ours])).refuse(404, 'NotFound');
    expect(await result).toBe(done);
    expect(calls).toEqual([]);
  });

  test('throws the Conflict and does not call apply if the object has changed', async () => {
    const result = reconcile({});
    (await written([ours])).refuse(409, 'Conflict');
    expect(isConflict(await result.catch((error: unknown) => error))).toBe(true);
    expect(calls).toEqual([]);
  });
});

describe('finalizer, for an object that is being deleted,', () => {
  const going = { deletionTimestamp, finalizers: ['before', ours, 'after'] };

  test('calls cleanup, and then removes only our finalizer', async () => {
    const result = reconcile(going);
    const request = await written(['before', 'after']);
    expect(calls).toEqual(['cleanup 7']);
    request.json(200, stored('a', '8', { ...going, finalizers: ['before', 'after'] }));
    expect(await result).toBe(done);
  });

  // `done` is also the result of a reported failure without an error and without a delay.
  test.each([done, requeueAfter(50), retry(new Error('no'))])(
    'keeps the finalizer if the result of cleanup is %j',
    async (result) => {
      expect(await reconcile(going, { cleaned: () => result })).toBe(result);
      expect(calls).toEqual(['cleanup 7']);
      expect(server.unclaimed).toBe(0);
    },
  );

  test('keeps the finalizer if cleanup throws', async () => {
    const cleaned = () => {
      throw new Error('the database is away');
    };
    const failing = reconcile(going, { cleaned });
    await expect(failing).rejects.toThrow('the database is away');
    expect(server.unclaimed).toBe(0);
  });

  test.each([[undefined], [['other']]])('does nothing if the finalizers are %j', async (finalizers) => {
    expect(await reconcile({ deletionTimestamp, ...(finalizers && { finalizers }) })).toBe(done);
    expect(calls).toEqual([]);
    expect(server.unclaimed).toBe(0);
  });

  test('succeeds if the object no longer exists', async () => {
    const result = reconcile({ deletionTimestamp, finalizers: [ours] });
    (await written([])).refuse(404, 'NotFound');
    expect(await result).toBe(done);
  });

  test('throws an error that the removal of the finalizer causes', async () => {
    const result = reconcile(going);
    const caught = result.catch((error: unknown) => error);
    (await written(['before', 'after'])).refuse(500, 'InternalError');
    expect(await caught).toMatchObject({ code: 500 });
  });

  test('removes the finalizer without another cleanup if only the status was written meanwhile', async () => {
    const result = reconcile({ ...going, generation: 2 });
    (await written(['before', 'after'])).refuse(409, 'Conflict');
    const current = stored('a', '9', { ...going, generation: 2, finalizers: [ours, 'after'] });
    (await server.next({ method: 'GET', path })).json(200, current);
    const request = await server.next({ method: 'PATCH', path });
    expect(request.body).toEqual([
      { op: 'add', path: '/metadata/resourceVersion', value: '9' },
      { op: 'add', path: '/metadata/finalizers', value: ['after'] },
    ]);
    request.json(200, stored('a', '10'));
    expect(await result).toBe(done);
    expect(calls).toEqual(['cleanup 7']);
  });

  test.each<[string, Partial<ObjectMeta>]>([
    ['the spec', { generation: 3 }],
    ['the uid', { generation: 2, uid: 'other' }],
  ])('throws the Conflict if %s has changed meanwhile', async (_, changed) => {
    const caught = reconcile({ ...going, generation: 2 }).catch((error: unknown) => error);
    (await written(['before', 'after'])).refuse(409, 'Conflict');
    (await server.next({ method: 'GET', path })).json(200, stored('a', '9', { ...going, ...changed }));
    expect(isConflict(await caught)).toBe(true);
  });

  test('succeeds if the object is gone after the Conflict', async () => {
    const result = reconcile({ ...going, generation: 2 });
    (await written(['before', 'after'])).refuse(409, 'Conflict');
    (await server.next({ method: 'GET', path })).refuse(404, 'NotFound');
    expect(await result).toBe(done);
  });
});

describe('removeFinalizer', () => {
  const remove = (finalizers?: readonly string[]) =>
    removeFinalizer(
      new HttpClient(transport, 'tester'),
      Widget,
      stored('a', '7', finalizers === undefined ? {} : { finalizers }),
      ours,
    );

  test('keeps the order of the other finalizers', async () => {
    const result = remove(['before', ours, 'after']);
    (await written(['before', 'after'])).json(200, stored('a', '8'));
    expect((await result)?.metadata.resourceVersion).toBe('8');
  });

  test.each([undefined, ['other']])('sends nothing for an object with %j', async (finalizers) => {
    expect((await remove(finalizers))?.metadata.resourceVersion).toBe('7');
    expect(server.unclaimed).toBe(0);
  });

  test('returns undefined if the object no longer exists', async () => {
    const result = remove([ours]);
    (await written([])).refuse(404, 'NotFound');
    expect(await result).toBeUndefined();
  });
});
