import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../src/runtime/client/http-client.ts';
import { Transport } from '../../../../src/runtime/client/transport.ts';
import { belongsToPredecessor } from '../../../../src/runtime/controller/index.ts';
import { deleteIfPresent } from '../../../../src/runtime/index.ts';
import { controllerReference, type OwnerReference } from '../../../../src/runtime/kind/index.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

describe('a deletion', () => {
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

  test('that the API server accepts is true, and carries the preconditions', async () => {
    const removed = remove({ uid: 'uid-p' });
    const request = await asked();
    expect(request.body).toMatchObject({ preconditions: { uid: 'uid-p' } });
    request.json(200, { kind: 'Status' });
    expect(await removed).toBe(true);
  });

  test('of what is gone is no error', async () => {
    const removed = remove();
    (await asked()).refuse(404, 'NotFound');
    expect(await removed).toBe(false);
  });

  test('by uid of what another has followed is no error', async () => {
    const removed = remove({ uid: 'uid-p' });
    (await asked()).refuse(409, 'Conflict');
    expect(await removed).toBe(false);
  });

  test.each([undefined, { resourceVersion: '7' }, { uid: 'uid-p', resourceVersion: '7' }])(
    'with %j throws a conflict: the object may be there, and have changed',
    async (options) => {
      const removed = remove(options).catch((error: unknown) => error);
      (await asked()).refuse(409, 'Conflict');
      expect(await removed).toMatchObject({ code: 409 });
    },
  );

  test('that is forbidden throws', async () => {
    const removed = remove({ uid: 'uid-p' }).catch((error: unknown) => error);
    (await asked()).refuse(403, 'Forbidden');
    expect(await removed).toMatchObject({ code: 403 });
  });
});

describe('a child belongs to a predecessor', () => {
  const owner = stored('w', '1', { uid: 'uid-new' });
  const before = controllerReference(Widget, stored('w', '1', { uid: 'uid-old' }));

  test.each<[string, boolean, readonly OwnerReference[]]>([
    ['of the same name and kind', true, [before]],
    ['of the same name in an older version of the kind', true, [{ ...before, apiVersion: 'test.example/v1beta1' }]],
    ['but not the owner itself', false, [controllerReference(Widget, owner)]],
    ['but not another object of the kind', false, [{ ...before, name: 'v' }]],
    ['but not an object of another group', false, [{ ...before, apiVersion: 'other.example/v1' }]],
    ['but not an object of another kind', false, [{ ...before, kind: 'Gadget' }]],
    ['but not an owner that is no controller', false, [{ ...before, controller: false }]],
    ['but not nobody', false, []],
  ])('%s: %s', (_, expected, ownerReferences) => {
    expect(belongsToPredecessor(stored('p', '1', { ownerReferences }), Widget, owner)).toBe(expected);
  });
});
