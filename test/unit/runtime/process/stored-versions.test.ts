import { defineController, defineKind, type KubeObject, permissions, withVersion } from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import { expect, test } from '@jest/globals';
import Type from 'typebox';
import { requireStoredVersions, StoredVersionError } from '../../../../packages/runtime/src/process/stored-versions.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';

const versionOf = (version: string) =>
  defineKind({
    group: 'example.com',
    version,
    kind: 'Greeting',
    plural: 'greetings',
    description: 'Greets.',
    spec: Type.Object({}),
    status: Type.Object({}),
  });
const Greeting = withVersion(versionOf('v2'), versionOf('v1'));

/** A client that responds to each get with the next of these. */
const clientOf = (...responses: (readonly string[] | Error)[]) => {
  const left = [...responses];
  const get = async () => {
    const next = left.shift();
    if (next instanceof Error) throw next;
    return { metadata: {}, status: { storedVersions: next } } as unknown as KubeObject;
  };
  return { client: { get } as Parameters<typeof requireStoredVersions>[0], left };
};

const failure = (code: number, reason: string) => new ApiError('GET /', code, { code, reason, message: reason });

const { signal } = new AbortController();
const check = (...responses: Parameters<typeof clientOf>) => {
  const log = new RecordingLog();
  const { client, left } = clientOf(...responses);
  return requireStoredVersions(client, Greeting, log, signal).then(() => ({ log, left }));
};

test('names the definition and the version that the kind lacks', async () => {
  await expect(check(['v1alpha1', 'v1', 'v2'])).rejects.toThrow(StoredVersionError);
  await expect(check(['v1alpha1', 'v1', 'v2'])).rejects.toThrow(
    'CustomResourceDefinition greetings.example.com may hold objects of v1alpha1 (status.storedVersions), ' +
      'and the operator has only v2, v1',
  );
});

test('runs if the kind has each stored version, or the definition does not exist', async () => {
  await check(['v1', 'v2']);
  await check(failure(404, 'NotFound'));
});

test('waits for the API server, and only warns without the right to read the definition', async () => {
  const { left } = await check(failure(503, 'ServiceUnavailable'), ['v2']);
  expect(left).toEqual([]);
  const { log } = await check(failure(403, 'Forbidden'));
  expect(log.messages('warn')).toEqual(['the stored versions are not checked: grant `get` on the definition']);
});

test('the rules of a controller allow the check of its definition, if its kind has versions', () => {
  const rulesFor = (kind: typeof Greeting) =>
    permissions([defineController(kind, { reasons: {}, reconcile: async () => ({ reason: 'Refused', message: '' }) })]);
  const rule = {
    apiGroups: ['apiextensions.k8s.io'],
    resources: ['customresourcedefinitions'],
    resourceNames: ['greetings.example.com'],
    verbs: ['get'],
  };
  expect(rulesFor(Greeting)).toContainEqual(rule);
  expect(rulesFor(versionOf('v1'))).not.toContainEqual(rule);
});
