import { Applier, controllerReference, type Manifest } from '@echoperator/runtime';
import type { ObjectMeta } from '@echoperator/runtime/client';
import { NetworkPolicy } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Store } from '../../../../packages/runtime/src/cache/store.ts';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';
import { type Exchange, ScriptedServer } from '../../environment/scripted-server.ts';

// Against a real API server: test/integration/apply.test.ts. Here is what a real one does not do when it is asked to.

const path = '/apis/test.example/v1/namespaces/default/parts';
const widget = stored('owner', '1');
const ownerReferences = [controllerReference(Widget, widget)];
const manifest: Manifest<Part> = { metadata: { name: 'a', namespace: 'default', ownerReferences }, spec: { size: 1 } };

let server: ScriptedServer;
let transport: Transport;
let client: HttpClient;
const applier = new Applier({ fieldManager: 'tester' });
const store = new Store<Part>();

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  client = new HttpClient(transport, 'tester');
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const createOnce = () => applier.createOnce(Part, manifest, { client, store });

describe('when a create gets no response', () => {
  const created = stored('a', '7', { ownerReferences });

  async function lost(answer: (look: Exchange) => void): ReturnType<typeof createOnce> {
    const result = createOnce();
    result.catch(() => {});
    (await server.next({ method: 'POST', path })).cut();
    answer(await server.next({ method: 'GET', path: `${path}/a` }));
    return result;
  }

  test('reports "created" if a get finds the object', async () => {
    expect(await lost((look) => look.json(200, created))).toEqual({ type: 'created', object: created });
  });

  test('reports "nameTaken" if a get finds another object', async () => {
    const holder = stored('a', '7');
    expect(await lost((look) => look.json(200, holder))).toEqual({ type: 'nameTaken', holder });
  });

  test('throws the error of the create if a get finds nothing', async () => {
    await expect(lost((look) => look.refuse(404, 'NotFound'))).rejects.not.toMatchObject({ reason: 'NotFound' });
  });

  test('treats a server timeout as a missing response', async () => {
    const result = createOnce();
    (await server.next({ method: 'POST', path })).refuse(504, 'Timeout');
    (await server.next({ method: 'GET', path: `${path}/a` })).json(200, created);
    expect(await result).toEqual({ type: 'created', object: created });
  });
});

test('createOnce can refuse unknown fields', async () => {
  const result = applier.createOnce(Part, manifest, { client, store, fieldValidation: 'Strict' });
  const request = await server.next({ method: 'POST', path });
  expect(request.query.get('fieldValidation')).toBe('Strict');
  request.json(201, stored('a', '7', { ownerReferences }));
  expect(await result).toMatchObject({ type: 'created' });
});

test('throws the error of a create that was not sent, without a get', async () => {
  await server.close();
  await expect(createOnce()).rejects.toMatchObject({ wasSent: false, message: expect.stringMatching(/^POST /) });
});

test('throws a refusal, without a get', async () => {
  const result = createOnce();
  result.catch(() => {});
  (await server.next({ method: 'POST', path })).refuse(403, 'Forbidden');
  await expect(result).rejects.toMatchObject({ code: 403 });
  expect(server.unclaimed).toBe(0);
});

test('throws AlreadyExists if the existing object is gone by the time of the get', async () => {
  const result = createOnce();
  result.catch(() => {});
  (await server.next({ method: 'POST', path })).refuse(409, 'AlreadyExists');
  (await server.next({ method: 'GET', path: `${path}/a` })).refuse(404, 'NotFound');
  await expect(result).rejects.toMatchObject({ reason: 'AlreadyExists' });
});

test.each([
  ['apply', 'PATCH', 'Conflict'],
  ['createOnce', 'POST', 'AlreadyExists'],
] as const)(
  '%s after a %s that is a %s takes the object that the store shows by now, without a get',
  async (method, verb, reason) => {
    const filled = new Store<Part>();
    const result = applier[method](Part, manifest, { client, store: filled });
    const request = await server.next({ method: verb });
    const theirs = stored('a', '7');
    filled.set(theirs);
    request.refuse(409, reason);
    expect(await result).toEqual({ type: 'nameTaken', holder: theirs });
    expect(server.unclaimed).toBe(0);
  },
);

test.each(['apply', 'createOnce'] as const)('%s refuses a child without a controller reference', async (method) => {
  const orphan: Manifest<Part> = { metadata: { name: 'a', namespace: 'default' } };
  await expect(applier[method](Part, orphan, { client, store })).rejects.toThrow(
    new RangeError('the manifest of parts.test.example a has no controller reference: add controllerReference(…)'),
  );
});

test('does not modify the manifest', async () => {
  const before = structuredClone(manifest);
  const result = applier.apply(Part, manifest, { client, store });
  const { body } = await server.next({ method: 'PATCH', path: `${path}/a` });
  expect(body).toMatchObject({
    metadata: { annotations: { 'tester/applied': expect.stringMatching(/^[0-9a-f]{16}$/) } },
  });
  expect(manifest).toEqual(before);
  await transport.close();
  await expect(result).rejects.toThrow();
});

describe('a difference that remains after an apply', () => {
  const wanted = { ...manifest, spec: { podSelector: {}, policyTypes: ['Ingress'] } };
  const minuteMs = 60_000;
  afterEach(() => {
    jest.restoreAllMocks();
  });

  test.each([
    ['is rewritten', 'a minute', minuteMs, { ...wanted.spec, policyTypes: ['Egress'] }],
    ['is added to an atomic field', 'an hour', 60 * minuteMs, { ...wanted.spec, podSelector: { matchLabels: {} } }],
  ])('that %s is applied again after %s, and not earlier', async (_, __, pauseMs, spec) => {
    const now = performance.now.bind(performance);
    let skippedMs = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now() + skippedMs);
    const policies = new Store<NetworkPolicy>();
    const apply = () => applier.apply(NetworkPolicy, wanted, { client, store: policies });
    const answered = async (result: ReturnType<typeof apply>): ReturnType<typeof apply> => {
      const request = await server.next({ method: 'PATCH' });
      const { metadata } = request.body as Manifest<Part>;
      request.json(200, { metadata: { ...stored('a', '7', metadata as Partial<ObjectMeta>).metadata }, spec });
      return result;
    };
    const created = await answered(apply());
    expect(created.type).toBe('created');
    if (created.type === 'created') policies.set(created.object);
    skippedMs = pauseMs - minuteMs / 2;
    expect((await apply()).type).toBe('unchanged');
    skippedMs = pauseMs + minuteMs / 2;
    expect((await answered(apply())).type).toBe('unchanged');
  });
});

test('neither sends nor compares a null', async () => {
  const withNulls = {
    metadata: { ...manifest.metadata, labels: { kept: 'yes', gone: null } },
    spec: { size: null },
  } as unknown as Manifest<Part>;
  const result = applier.apply(Part, withNulls, { client, store });
  const request = await server.next({ method: 'PATCH', path: `${path}/a` });
  expect(JSON.stringify(request.body)).not.toContain('null');
  expect(request.body).toMatchObject({ metadata: { labels: { kept: 'yes' } }, spec: {} });
  request.json(201, stored('a', '7', { ownerReferences }));
  await result;
});

test.each(['', 'My Operator', 'a/b', '-a', 'a'.repeat(254)])(
  'refuses a field manager "%s" that cannot prefix an annotation',
  (fieldManager) => {
    expect(() => new Applier({ fieldManager })).toThrow(RangeError);
  },
);

describe('the store of another kind', () => {
  // It compiles, because these types have no member that another lacks.
  const widgets = new Store<Part>({ kind: Widget });
  const message =
    'the store has test.example/v1/widgets, and the manifest is of test.example/v1/parts: pass the store of that kind';

  test('is a RangeError, before anything is sent', async () => {
    await expect(applier.apply(Part, manifest, { client, store: widgets })).rejects.toThrow(new RangeError(message));
    await expect(applier.createOnce(Part, manifest, { client, store: widgets })).rejects.toThrow(message);
  });
});
