import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../packages/runtime/src/client/transport.ts';
import { overtake } from '../../../packages/testing/src/overtaking.ts';
import { stored, Widget } from '../../../testkit/widgets.ts';
import { ScriptedServer } from '../environment/scripted-server.ts';

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

test('a child is replaced also if its controller creates it anew before the object that belongs to nobody', async () => {
  const ownerReferences = [{ apiVersion: 'test.example/v1', kind: 'Owner', name: 'o', uid: 'o', controller: true }];
  const child = (uid: string) => ({
    ...stored('a', '7'),
    metadata: { ...stored('a', '7').metadata, uid, ownerReferences },
  });
  const path = '/apis/test.example/v1/namespaces/default/widgets/a';
  const overtaking = overtake(new HttpClient(transport, 'tester'), Widget, { namespace: 'default', name: 'a' });
  const found = async (uid: string) => (await server.next({ method: 'GET', path })).json(200, child(uid));
  const deleted = async (uid: string): Promise<void> => {
    const request = await server.next({ method: 'DELETE', path });
    expect(request.body).toMatchObject({ preconditions: { uid } });
    request.json(200, child(uid));
    (await server.next({ method: 'GET', path })).refuse(404, 'NotFound');
  };
  await found('first');
  await found('first');
  await deleted('first');
  (await server.next({ method: 'POST' })).refuse(409, 'AlreadyExists');
  await found('second');
  await deleted('second');
  const created = await server.next({ method: 'POST' });
  expect(created.body).not.toHaveProperty('metadata.ownerReferences');
  created.json(201, stored('a', '9'));
  expect((await overtaking)?.type).toBe('replaced');
});
