import { defineKind } from '@echoperator/runtime';
import { defineAdmission } from '@echoperator/runtime/admission';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import * as Type from 'typebox';
import { admissionHandlers, admissionPath } from '../../../../packages/runtime/src/admission/admission-handlers.ts';
import { jsonPatch } from '../../../../packages/runtime/src/admission/json-patch.ts';

const Card = defineKind({
  group: 'test.example',
  version: 'v1',
  kind: 'Card',
  plural: 'cards',
  description: 'Has a text.',
  spec: Type.Object({ text: Type.String(), size: Type.Optional(Type.Integer()) }),
  status: Type.Object({}),
});

const requests: unknown[] = [];
const admission = defineAdmission(Card, {
  validate: ({ spec }, previous, request) => {
    const { warn, signal: _, ...rest } = request;
    requests.push({ ...rest, previous: previous?.spec.text });
    if (spec.text === 'odd') warn('an odd\ntext');
    return spec.text === 'bad' ? [{ path: 'spec.text', message: 'must not be bad' }] : [];
  },
  defaults: (card) => ({ ...card, spec: { size: 1, ...card.spec } }),
});

const handlers = admissionHandlers([admission]);
const call = async (does: 'validate' | 'default', body: unknown): Promise<{ readonly response: object }> =>
  (await handlers.get(admissionPath(does, admission))!(body, new AbortController().signal)) as {
    readonly response: object;
  };

const review = (object: object, rest: object = {}) => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: {
    uid: 'u1',
    operation: 'CREATE',
    name: 'one',
    namespace: 'default',
    userInfo: { username: 'me', groups: ['people'] },
    object: { metadata: { name: 'one' }, ...object },
    ...rest,
  },
});

describe('validate', () => {
  test('gets the previous object and the request', async () => {
    const oldObject = { metadata: { name: 'one' }, spec: { text: 'old' } };
    await call('validate', review({ spec: { text: 'new' } }, { operation: 'UPDATE', oldObject, dryRun: true }));
    expect(requests.at(-1)).toEqual({
      operation: 'UPDATE',
      name: 'one',
      namespace: 'default',
      isDryRun: true,
      user: { name: 'me', groups: ['people'] },
      previous: 'old',
    });
  });

  test('refuses with the status of an invalid object', async () => {
    expect((await call('validate', review({ spec: { text: 'bad' } }))).response).toEqual({
      uid: 'u1',
      allowed: false,
      status: {
        status: 'Failure',
        code: 422,
        reason: 'Invalid',
        message: 'Card.test.example "one" is invalid: spec.text: must not be bad',
        details: {
          name: 'one',
          group: 'test.example',
          kind: 'Card',
          causes: [{ reason: 'FieldValueInvalid', field: 'spec.text', message: 'must not be bad' }],
        },
      },
    });
  });

  test('shows warnings on one line', async () => {
    expect((await call('validate', review({ spec: { text: 'odd' } }))).response).toEqual({
      uid: 'u1',
      allowed: true,
      warnings: ['an odd text'],
    });
  });

  test('is not called for an object that is being deleted', async () => {
    const metadata = { name: 'one', deletionTimestamp: '2030-01-01T00:00:00Z' };
    expect((await call('validate', review({ metadata, spec: { text: 'bad' } }))).response).toEqual({
      uid: 'u1',
      allowed: true,
    });
  });
});

const deep = (levels: number): unknown => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`);

test.each(['validate', 'default'] as const)('an object that is nested too deep is refused before %s', async (does) => {
  const response = (await call(does, review({ spec: { text: 'good', more: deep(100_000) } }))).response;
  expect(response).toMatchObject({ uid: 'u1', allowed: false, status: { code: 422 } });
  const oldObject = { metadata: { name: 'one' }, spec: deep(100_000) };
  const update = review({ spec: { text: 'good' } }, { operation: 'UPDATE', oldObject });
  expect((await call(does, update)).response).toMatchObject({ allowed: false });
});

test('a refusal stays small, and a warning has no control characters', async () => {
  const wordy = defineAdmission(Card, {
    validate: (_, __, { warn }) => {
      warn('one\u0007\u001b[31mtwo');
      return Array.from({ length: 100 }, () => ({ path: 'p'.repeat(100_000), message: 'm'.repeat(100_000) }));
    },
  });
  const handler = admissionHandlers([wordy]).get(admissionPath('validate', wordy))!;
  const { response } = (await handler(review({ spec: { text: 'a' } }), new AbortController().signal)) as {
    readonly response: { readonly warnings: readonly string[] };
  };
  expect(JSON.stringify(response).length).toBeLessThan(200_000);
  expect(response.warnings).toEqual(['one [31mtwo']);
});

describe('defaults', () => {
  const patchOf = async (object: object): Promise<unknown> => {
    const { response } = await call('default', review(object));
    const { patch } = response as { readonly patch?: string };
    return patch === undefined ? undefined : JSON.parse(Buffer.from(patch, 'base64').toString());
  };

  test('become a patch of what has changed', async () => {
    expect(await patchOf({ spec: { text: 'a' } })).toEqual([{ op: 'add', path: '/spec/size', value: 1 }]);
    expect(await patchOf({ spec: { text: 'a', size: 2 } })).toBeUndefined();
  });

  test('are not computed for an object that its schema refuses', async () => {
    expect(await patchOf({ spec: { text: 7 } })).toBeUndefined();
    expect(await patchOf({})).toBeUndefined();
  });
});

test.each([
  ['null', null],
  ['a number', 7],
  ['a list', []],
  ['another kind', { apiVersion: 'v1', kind: 'Pod' }],
  ['an old version', { ...review({}), apiVersion: 'admission.k8s.io/v1beta1' }],
  ['no request', { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' }],
  ['no uid', review({}, { uid: '' })],
  ['a deletion', review({}, { operation: 'DELETE', object: null })],
  ['no object', review({}, { object: null })],
  ['an object without metadata', review({}, { object: { metadata: 'none' } })],
])('a body that is %s is a wrong request', async (_, body) => {
  await expect(call('validate', body)).rejects.toMatchObject({ code: 400 });
});

test('refuses a definition without functions and a timeout that no API server accepts', () => {
  expect(() => defineAdmission(Card, {})).toThrow('cards.test.example declares nothing');
  expect(() => defineAdmission(Card, { timeoutSeconds: 31, validate: () => [] })).toThrow('from 1 to 30, is 31');
});

/** Applies the operations that `jsonPatch` uses, as RFC 6902 defines them. */
function applied(value: unknown, patch: ReturnType<typeof jsonPatch>): unknown {
  const root = { root: structuredClone(value) } as Record<string, unknown>;
  for (const operation of patch) {
    const names = operation.path
      .split('/')
      .slice(1)
      .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
    const path = ['root', ...names];
    const last = path.pop()!;
    const parent = path.reduce((object, name) => object[name] as Record<string, unknown>, root);
    if (operation.op === 'remove') delete parent[last];
    else if ('value' in operation) parent[last] = operation.value;
  }
  return root.root;
}

test('a patch of any two values makes the first one the second', () => {
  const json = fc.jsonValue({ maxDepth: 4 }).filter((value) => !JSON.stringify(value).includes('__proto__'));
  fc.assert(
    fc.property(json, json, (from, to) => {
      // JSON has no -0.
      const [one, other] = [JSON.parse(JSON.stringify(from)), JSON.parse(JSON.stringify(to))];
      expect(applied(one, jsonPatch(one, other))).toEqual(other);
      expect(jsonPatch(one, one)).toEqual([]);
    }),
  );
});
