import { controllerReference, deleteIfPresent } from '@echoperator/runtime';
import type { OwnerReference } from '@echoperator/runtime/client';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { belongsToPredecessor } from '../../../../packages/runtime/src/controller/children.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

describe('deleteIfPresent', () => {
  let server: ScriptedServer;
  let transport: Transport;
  beforeEach(async () => {
    server = await ScriptedServer.start();
    transport = new Transport(server.connection, { userAgent: 'test/1' });
  });
  afterEach(async () => {
    await transport.close();
    await server.close();
  });

  const key = { name: 'p', namespace: 'default' };
  const remove = (options?: { uid?: string; resourceVersion?: string }): Promise<boolean> =>
    deleteIfPresent(new HttpClient(transport, 'tester'), Part, key, options);
  const asked = () => server.next({ method: 'DELETE' });

  test('returns true if the API server accepts the deletion, and sends the preconditions', async () => {
    const removed = remove({ uid: 'uid-p' });
    const request = await asked();
    expect(request.body).toMatchObject({ preconditions: { uid: 'uid-p' } });
    request.json(200, { kind: 'Status' });
    expect(await removed).toBe(true);
  });

  test('returns false if the object does not exist', async () => {
    const removed = remove();
    (await asked()).refuse(404, 'NotFound');
    expect(await removed).toBe(false);
  });

  test('returns false if another object has the name and only a uid was given', async () => {
    const removed = remove({ uid: 'uid-p' });
    (await asked()).refuse(409, 'Conflict');
    expect(await removed).toBe(false);
  });

  test.each([undefined, { resourceVersion: '7' }, { uid: 'uid-p', resourceVersion: '7' }])(
    'with %j throws a Conflict, because the object may have changed',
    async (options) => {
      const removed = remove(options).catch((error: unknown) => error);
      (await asked()).refuse(409, 'Conflict');
      expect(await removed).toMatchObject({ code: 409 });
    },
  );

  test('throws if the deletion is forbidden', async () => {
    const removed = remove({ uid: 'uid-p' }).catch((error: unknown) => error);
    (await asked()).refuse(403, 'Forbidden');
    expect(await removed).toMatchObject({ code: 403 });
  });
});

describe('a child belongs to a predecessor if its controller', () => {
  const owner = stored('w', '1', { uid: 'uid-new' });
  const before = controllerReference(Widget, stored('w', '1', { uid: 'uid-old' }));

  test.each<[string, boolean, readonly OwnerReference[]]>([
    ['has the same name and kind', true, [before]],
    ['has the same name and an older version of the kind', true, [{ ...before, apiVersion: 'test.example/v1beta1' }]],
    ['is the owner itself', false, [controllerReference(Widget, owner)]],
    ['has another name', false, [{ ...before, name: 'v' }]],
    ['has another group', false, [{ ...before, apiVersion: 'other.example/v1' }]],
    ['has another kind', false, [{ ...before, kind: 'Gadget' }]],
    ['is an owner that is not a controller', false, [{ ...before, controller: false }]],
    ['does not exist', false, []],
  ])('%s: %s', (_, expected, ownerReferences) => {
    expect(belongsToPredecessor(stored('p', '1', { ownerReferences }), Widget, owner)).toBe(expected);
  });
});
