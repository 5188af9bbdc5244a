import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Discovery, NotServedError } from '../../../../src/runtime/client/discovery.ts';
import { Transport } from '../../../../src/runtime/client/transport.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

let server: ScriptedServer;
let transport: Transport;
let discovery: Discovery;

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  discovery = new Discovery(transport);
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const path = '/apis/test.example/v1';
const v1 = { group: 'test.example', version: 'v1' };
const widgets = { name: 'widgets', kind: 'Widget', namespaced: true, verbs: ['get', 'list'] };
const resources = [
  widgets,
  { name: 'widgets/status', kind: 'Widget', namespaced: true, verbs: ['get'] },
  { name: 'widgets/scale', kind: 'Scale', namespaced: true, verbs: ['get'] },
  { name: 'planets', kind: 'Planet', namespaced: false, verbs: ['get'] },
];

describe('a mapping', () => {
  test('is found by kind and by plural, and asked for once', async () => {
    const answer = discovery.mapping({ ...v1, kind: 'Widget' });
    (await server.next({ method: 'GET', path })).json(200, { resources });
    const widget = await answer;
    expect(widget).toEqual({
      kind: { ...v1, kind: 'Widget', plural: 'widgets', scope: 'Namespaced' },
      verbs: ['get', 'list'],
      subresources: ['status', 'scale'],
    });
    expect(await discovery.mapping({ ...v1, plural: 'widgets' })).toBe(widget);
    expect((await discovery.mapping({ ...v1, kind: 'Planet' })).kind.scope).toBe('Cluster');
    expect(server.unclaimed).toBe(0);
  });

  test('of the core group stands elsewhere', async () => {
    const answer = discovery.mapping({ group: '', version: 'v1', plural: 'widgets' });
    (await server.next({ method: 'GET', path: '/api/v1' })).json(200, { resources });
    expect((await answer).kind.kind).toBe('Widget');
  });

  test('that is not there says what is, and is asked for again: it may be installed by then', async () => {
    const refused = discovery.mapping({ ...v1, kind: 'Gadget' }).catch((error: unknown) => error);
    (await server.next()).json(200, { resources });
    const error = await refused;
    expect(error).toBeInstanceOf(NotServedError);
    expect((error as Error).message).toBe(
      'the API server does not serve the kind Gadget of test.example/v1; there is Widget, Planet',
    );
    const again = discovery.mapping({ ...v1, kind: 'Gadget' });
    (await server.next()).json(200, { resources: [...resources, { ...widgets, name: 'gadgets', kind: 'Gadget' }] });
    expect((await again).kind.plural).toBe('gadgets');
  });

  test('of a group or version that is not there at all', async () => {
    const refused = expect(discovery.mapping({ group: '', version: 'v9', plural: 'pods' })).rejects.toThrow(
      'the API server does not serve the resource pods of the core group, v9; there is nothing',
    );
    (await server.next()).text(404, 'text/plain', '404 page not found');
    await refused;
  });

  test('that the server refuses to tell is no answer', async () => {
    const refused = expect(discovery.mapping({ ...v1, kind: 'Widget' })).rejects.toMatchObject({ code: 403 });
    (await server.next()).refuse(403, 'Forbidden');
    await refused;
  });

  test('ends with the signal', async () => {
    const controller = new AbortController();
    const ended = expect(discovery.mapping({ ...v1, kind: 'Widget' }, controller)).rejects.toThrow('enough');
    await server.next();
    controller.abort(new Error('enough'));
    await ended;
  });
});
