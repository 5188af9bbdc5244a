import { ApiError, type Client, type ClientRequest, NoResponseError } from '@echoperator/runtime/client';
import { ConfigMap, Pod, Secret } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { PlannedReconcile } from '../../../../packages/runtime/src/plan/planned-reconcile.ts';

const key = { namespace: 'default', name: 'a' };
const stored = {
  metadata: { ...key, uid: 'u', resourceVersion: '5', creationTimestamp: '2026-01-01T00:00:00Z' },
};

const newReconcile = (live: object = stored) =>
  new PlannedReconcile({
    client: { get: async () => live } as unknown as Client,
    throttle: async () => {},
    signal: new AbortController().signal,
    cached: () => undefined,
  });

const request = (rest: Partial<ClientRequest> = {}): ClientRequest => ({ verb: 'patch', kind: Pod, key, ...rest });

test('a webhook that supports no dry run ends the plan, with a write whose fields are unknown', async () => {
  const reconcile = newReconcile();
  const message = 'admission webhook "a.example" does not support dry run';
  const refuse = async () => {
    throw new ApiError('PATCH /x', 400, { code: 400, reason: 'BadRequest', message });
  };
  await expect(reconcile.request(request(), refuse)).rejects.toThrow('supports no dry run');
  expect(reconcile.writes).toMatchObject([{ action: 'change', note: 'the fields are unknown' }]);
  expect(reconcile.end?.message).toContain('Pod default/a');
  await expect(reconcile.request(request({ kind: ConfigMap }), async () => stored)).rejects.toBe(reconcile.end);
});

test('a refused write is recorded without the text of the refusal, and the reconcile goes on', async () => {
  const reconcile = newReconcile();
  const refusal = new ApiError('PATCH /x', 422, { code: 422, reason: 'Invalid', message: 'the password "x" is bad' });
  const refused = reconcile.request(request(), () => Promise.reject(refusal));
  await expect(refused).rejects.toBe(refusal);
  expect(reconcile.writes).toMatchObject([{ action: 'refused', note: '422 Invalid' }]);
  expect(reconcile.end).toBeUndefined();
});

test('the status and the rest of an object are written one after the other, and shown together', async () => {
  const reconcile = newReconcile();
  const labelled = { ...stored, metadata: { ...stored.metadata, labels: { a: 'b' } } };
  await reconcile.request(request(), async () => labelled);
  const running = { ...stored, status: { phase: 'Running' } };
  const response = await reconcile.request(request({ subresource: 'status' }), async () => running);
  expect(response).toEqual({ ...labelled, status: { phase: 'Running' } });
  expect(reconcile.shown(Pod)?.get('default/a')).toEqual(response);
  expect(reconcile.writes).toMatchObject([{ action: 'change' }, { action: 'status' }]);
});

test('a write that changes nothing is recorded as such', async () => {
  const reconcile = newReconcile();
  await reconcile.request(request({ verb: 'apply' }), async () => stored);
  expect(reconcile.writes).toMatchObject([{ action: 'none', verb: 'apply' }]);
});

const failures = [
  ['429', new ApiError('PATCH /x', 429, { code: 429, reason: 'TooManyRequests' })],
  ['500', new ApiError('PATCH /x', 500, { code: 500, reason: 'InternalError' })],
  ['no response', new NoResponseError('PATCH /x', new Error('reset'), true)],
] as const;

test.each(failures)('a write with %s ends the plan, even if the reconcile hides the failure', async (_, failure) => {
  const reconcile = newReconcile();
  await reconcile.request(request(), () => Promise.reject(failure)).catch(() => undefined);
  expect(reconcile.writes).toMatchObject([{ action: 'change', note: 'the fields are unknown' }]);
  expect(reconcile.end?.message).toMatch(/^no answer to patch of Pod default\/a: /);
  await expect(reconcile.request(request({ kind: ConfigMap }), async () => stored)).rejects.toBe(reconcile.end);
});

test.each(failures)('a read with %s ends the plan too, but a refused read is an answer', async (_, failure) => {
  const reconcile = newReconcile();
  const read = request({ verb: 'get' });
  const forbidden = new ApiError('GET /x', 403, { code: 403, reason: 'Forbidden' });
  await expect(reconcile.request(read, () => Promise.reject(forbidden))).rejects.toBe(forbidden);
  expect(reconcile.end).toBeUndefined();
  await reconcile.request(read, () => Promise.reject(failure)).catch(() => undefined);
  expect(reconcile.end?.message).toMatch(/^no answer to get of Pod/);
});

test('a refusal that quotes the text of a webhook without dry runs is a refusal', async () => {
  const reconcile = newReconcile();
  const message = 'spec.color: "admission webhook "a" does not support dry run" is not a color';
  const refusal = new ApiError('PATCH /x', 400, { code: 400, reason: 'BadRequest', message });
  await expect(reconcile.request(request(), () => Promise.reject(refusal))).rejects.toBe(refusal);
  expect(reconcile.writes).toMatchObject([{ action: 'refused' }]);
});

test('a value of a Secret is not shown in a field of another kind', async () => {
  const reconcile = newReconcile();
  const password = 'correct horse battery';
  const secret = { ...stored, data: { password: Buffer.from(`${password}\n`).toString('base64'), port: 'NTQzMg==' } };
  await reconcile.request(request({ verb: 'get', kind: Secret }), async () => secret);
  const data = { url: `postgres://me:${password}@db:5432/`, port: '5432', size: 'large', nested: [{ of: password }] };
  await reconcile.request(request({ kind: ConfigMap }), async () => ({ ...stored, data }));
  expect(reconcile.writes).toEqual([expect.objectContaining({ fields: [{ path: 'data' }] })]);
  const live = {
    ...stored,
    data: { url: 'none', port: '1', size: 'small', nested: [], encoded: secret.data.password },
  };
  const other = newReconcile(live);
  other.hasRead(Secret, secret);
  await other.request(request({ verb: 'apply', kind: ConfigMap }), async () => ({
    ...live,
    data: { ...data, encoded: 'x' },
  }));
  expect(other.writes[0]?.fields).toEqual([
    { path: 'data.url' },
    { path: 'data.port' },
    { path: 'data.size', before: 'small', after: 'large' },
    { path: 'data.nested[0]' },
    { path: 'data.encoded' },
  ]);
  expect(other.secrets.hideIn(`ALTER ROLE me PASSWORD '${password}'`)).toBe(
    "ALTER ROLE me PASSWORD '(a value of a Secret)'",
  );
});

test('a Secret that the reconcile writes, or lists, is known too', async () => {
  const secret = { ...stored, data: { key: Buffer.from('a generated key').toString('base64') } };
  const data = { data: { copy: 'a generated key', other: 'plain' } };
  for (const secretRequest of [request({ verb: 'create', kind: Secret }), request({ verb: 'list', kind: Secret })]) {
    const reconcile = newReconcile();
    const response = secretRequest.verb === 'list' ? { items: [secret] } : secret;
    await reconcile.request(secretRequest, async () => response);
    await reconcile.request(request({ kind: ConfigMap }), async () => ({ ...stored, ...data }));
    expect(JSON.stringify(reconcile.writes)).not.toContain('a generated key');
  }
});

test('a write of 20,000 fields, of long values or of long keys has a plan that is short', async () => {
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`key-${index}`, 'x']));
  const long = { text: 'x'.repeat(1_000_000) };
  const longKey = { ['k'.repeat(500_000)]: many };
  for (const data of [many, long, longKey, { a: longKey }]) {
    // Each member is a field of its own, because the object has it before.
    const before = { ...stored, data: Object.fromEntries(Object.keys(data).map((key) => [key, {}])) };
    const written = newReconcile(before);
    await written.request(request({ kind: ConfigMap }), async () => ({ ...stored, data }));
    expect(written.writes).toHaveLength(1);
    expect(written.writes[0]?.action).toBe('change');
    expect(JSON.stringify(written.writes).length).toBeLessThan(17_000);
    expect(written.writes[0]?.fields.length).toBeGreaterThan(0);
    if (data === many) expect(written.writes[0]?.note).toMatch(/^\d{5} more fields are too long to show$/);
  }
});
