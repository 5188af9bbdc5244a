import { defineKind } from '@echoperator/runtime';
import { expect, test } from '@jest/globals';
import Type from 'typebox';
import { conversionReview } from '../../../../packages/runtime/src/conversion/conversion-review.ts';
import { withVersion } from '../../../../packages/runtime/src/conversion/versions.ts';
import { WebhookRequestError } from '../../../../packages/runtime/src/webhook-server/webhook-server.ts';

const versionWith = (version: string, field: string) =>
  defineKind({
    group: 'example.com',
    version,
    kind: 'Greeting',
    plural: 'greetings',
    description: 'Greets.',
    spec: Type.Object({ [field]: Type.String() }),
    status: Type.Object({}),
  });

const Greeting = withVersion(versionWith('v1', 'who'), versionWith('v1alpha1', 'name'), {
  conversion: {
    toStored: ({ spec }) => ({ spec: { who: String(spec.name).toUpperCase() } }),
    fromStored: ({ spec }) => ({ spec: { name: String(spec.who).toLowerCase() } }),
  },
});

const object = (name: string, spec: unknown) => ({
  apiVersion: 'example.com/v1alpha1',
  kind: 'Greeting',
  metadata: { name, namespace: 'default' },
  spec,
});

const review = (request: object) => ({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview', request });

test('converts all objects in their order', () => {
  const objects = [object('a', { name: 'x' }), object('b', { name: 'y' })];
  expect(
    conversionReview([Greeting], review({ uid: 'u', desiredAPIVersion: 'example.com/v1', objects })),
  ).toMatchObject({
    kind: 'ConversionReview',
    response: {
      uid: 'u',
      convertedObjects: [
        { apiVersion: 'example.com/v1', metadata: { name: 'a' }, spec: { who: 'X' } },
        { apiVersion: 'example.com/v1', metadata: { name: 'b' }, spec: { who: 'Y' } },
      ],
      result: { status: 'Success' },
    },
  });
});

test('an object that is nested too deep does not fail the others, and has no deeper levels', () => {
  const more = JSON.parse(`${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`);
  const objects = [object('a', { name: 'x', more }), object('b', { name: 'y' })];
  const { response } = conversionReview([Greeting], review({ uid: 'u', desiredAPIVersion: 'example.com/v1', objects }));
  expect(response.result).toEqual({ status: 'Success' });
  expect(response.convertedObjects.map(({ metadata }) => metadata.name)).toEqual(['a', 'b']);
});

test('converts 10,000 objects', () => {
  const objects = Array.from({ length: 10_000 }, (_, index) => object(`o${index}`, { name: 'x' }));
  const body = review({ uid: 'u', desiredAPIVersion: 'example.com/v1', objects });
  expect(conversionReview([Greeting], body).response.convertedObjects).toHaveLength(10_000);
});

test.each([
  [object('a', null), 'example.com/v1', 'greetings.example.com default/a cannot be converted from v1alpha1 to v1'],
  [object('a', {}), 'example.com/v2', 'greetings.example.com has no version example.com/v2'],
  [{ ...object('a', {}), kind: 'Other' }, 'example.com/v1', 'no Other of example.com/v1alpha1 is converted here'],
])('fails as a whole, and says why: %j to %s', (wrong, desiredAPIVersion, message) => {
  const objects = [object('b', { name: 'y' }), wrong];
  expect(conversionReview([Greeting], review({ uid: 'u', desiredAPIVersion, objects })).response).toEqual({
    uid: 'u',
    convertedObjects: [],
    result: { status: 'Failure', message: expect.stringContaining(message) },
  });
});

test.each([
  undefined,
  {},
  review({}),
  review({ uid: 'u', desiredAPIVersion: 'a/b', objects: [5] }),
  review({ uid: 'u', desiredAPIVersion: 'a/b', objects: null }),
  review({ uid: 'u', desiredAPIVersion: 'a/b', objects: [{ apiVersion: 5, metadata: {} }] }),
  review({ desiredAPIVersion: 'a/b', objects: [] }),
])('refuses what is no review: %j', (body) => {
  expect(() => conversionReview([Greeting], body)).toThrow(WebhookRequestError);
});
