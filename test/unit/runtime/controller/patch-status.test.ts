import { builtInKind, type ObjectOf, patchStatus } from '@echoperator/runtime';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

const Reporting = builtInKind<{ status?: { phase?: string; ready?: number } }>(Widget);
type Reporting = ObjectOf<typeof Reporting>;

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

const widget: Reporting = { ...stored('a', '7'), status: { phase: 'Running', ready: 1 } };

test('a desired status costs no request', async () => {
  const client = new HttpClient(transport, 'tester');
  expect(await patchStatus(client, Reporting, widget, { phase: 'Running' })).toBeUndefined();
  expect(server.unclaimed).toBe(0);
});

test('a different status is merged, with the resourceVersion of the object that it was computed from', async () => {
  const client = new HttpClient(transport, 'tester');
  const reported = patchStatus(client, Reporting, widget, { phase: 'Done', ready: null });
  const request = await server.next({ method: 'PATCH' });
  expect(request.path).toMatch(/\/widgets\/a\/status$/);
  expect(request.body).toEqual({ metadata: { resourceVersion: '7' }, status: { phase: 'Done', ready: null } });
  request.json(200, stored('a', '8'));
  expect((await reported)?.metadata.resourceVersion).toBe('8');
});
