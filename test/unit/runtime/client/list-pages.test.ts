import { listPages } from '@echoperator/runtime/client';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { ResponseTooLargeError } from '../../../../packages/runtime/src/client/exchange.ts';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { type Exchange, ScriptedServer } from '../../environment/scripted-server.ts';

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

const named = async (selection = {}): Promise<readonly string[]> => {
  const names: string[] = [];
  for await (const { items } of listPages(client, Widget, selection)) {
    names.push(...items.map(({ metadata }) => metadata.name));
  }
  return names;
};
const nextList = (): Promise<Exchange> => server.next({ method: 'GET', path: widgetsPath });
const asked = ({ query }: Exchange) => [query.get('limit'), query.get('continue')];
const large = (name: string) => stored(name, '1', { annotations: { a: 'x'.repeat(5 * 1024 * 1024) } });

test('pages are read to the last one, with the selection', async () => {
  const names = named({ labelSelector: 'a=b' });
  const first = await nextList();
  expect(Object.fromEntries(first.query)).toEqual({ limit: '250', labelSelector: 'a=b' });
  first.list('7', [stored('a', '1')], 'more');
  const second = await nextList();
  expect(Object.fromEntries(second.query)).toEqual({ limit: '250', labelSelector: 'a=b', continue: 'more' });
  second.list('7', [stored('b', '1')]);
  expect(await names).toEqual(['a', 'b']);
});

test('pages have fewer objects if one is too large, down to one object of any size', async () => {
  const names = named();
  (await nextList()).list('7', [stored('a', '1')], 'more');
  for (const limit of ['250', '62', '15', '3']) {
    const page = await nextList();
    expect(asked(page)).toEqual([limit, 'more']);
    page.list('7', [large('b')], 'last');
  }
  const one = await nextList();
  expect(asked(one)).toEqual(['1', 'more']);
  one.list('7', [large('b')], 'last');
  const last = await nextList();
  expect(asked(last)).toEqual(['1', 'last']);
  last.list('7', [stored('c', '1')]);
  expect(await names).toEqual(['a', 'b', 'c']);
});

test('a list with maxBytes is rejected once its body is larger, and the rest is not read', async () => {
  const refused = client.list(Widget, { maxBytes: 1000 }).catch((error: unknown) => error);
  const request = await nextList();
  expect([...request.query]).toEqual([]);
  const body = request.stream();
  body.write('x'.repeat(1001));
  const error = await refused;
  expect(error).toBeInstanceOf(ResponseTooLargeError);
  expect(String(error)).toContain(`GET ${widgetsPath}: the response has more than 1000 bytes`);
  await request.closed;
});

test('a list of just maxBytes is read', async () => {
  const body = JSON.stringify({ metadata: { resourceVersion: '1' }, items: [] });
  const list = client.list(Widget, { maxBytes: body.length });
  (await nextList()).text(200, 'application/json', body);
  expect((await list).items).toEqual([]);
});

test('another failure is thrown', async () => {
  const names = named().catch((error: unknown) => error);
  (await nextList()).refuse(403, 'Forbidden');
  expect(String(await names)).toContain('403 Forbidden');
});
