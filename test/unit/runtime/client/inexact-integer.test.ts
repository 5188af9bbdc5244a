import { type ApiError, isInvalidField, isRefusal } from '@echoperator/runtime/client';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

let server: ScriptedServer;
let transport: Transport;
let client: HttpClient;

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  client = new HttpClient(transport, 'tester');
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const key = { name: 'a', namespace: 'default' };
/** What a response with 9007199254740993 is read as. */
const size: unknown = JSON.parse('9007199254740993');
const widget = (spec: object): Widget => ({ ...stored('a', '1'), spec: spec as { size: number } });

const writes: readonly [string, (spec: object) => Promise<unknown>, string][] = [
  ['create', (spec) => client.create(Widget, { metadata: key, spec: spec as { size: number } }), 'spec.sizes[1].most'],
  ['apply', (spec) => client.apply(Widget, widget(spec)), 'spec.sizes[1].most'],
  ['update', (spec) => client.update(Widget, widget(spec)), 'spec.sizes[1].most'],
  ['merge patch', (spec) => client.patch(Widget, key, { type: 'merge', body: { spec } }), 'spec.sizes[1].most'],
  [
    'JSON patch',
    (spec) => client.patch(Widget, key, { type: 'json', body: [{ op: 'add', path: '/spec', value: spec }] }),
    '[0].value.sizes[1].most',
  ],
];

describe.each(writes)('the body of a write: %s', (_, write, field) => {
  test.each([size, -Number(size)])('with an integer that a response may have rounded is not sent: %p', async (most) => {
    const error = (await write({ sizes: [{ most: 1 }, { most }] }).catch((thrown: unknown) => thrown)) as ApiError;
    expect(isRefusal(error) && isInvalidField(error)).toBe(true);
    expect(error.causes).toMatchObject([{ field }]);
    expect(error.serverMessage).toMatch(`${field}: Invalid value: ${most}: `);
    expect(server.unclaimed).toBe(0);
  });
});

test.each([2 ** 53 - 1, 1 - 2 ** 53, 0.1, -0, 1.5e300 / 1e299])('sends the number %p', async (number) => {
  const answer = client.create(Widget, { metadata: key, spec: { size: number } });
  const request = await server.next({
    method: 'POST',
    path: widgetsPath.replace('widgets', 'namespaces/default/widgets'),
  });
  expect(request.body).toMatchObject({ spec: { size: number + 0 } });
  request.json(201, stored('a', '1'));
  await answer;
});
