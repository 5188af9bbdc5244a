import { controllerReference } from '@echoperator/runtime';
import type { Job, PersistentVolumeClaim } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { keepReadFields } from '../../../../src/kinds/book-store/claims.ts';
import { BookStore } from '../../../../src/kinds/book-store/kind.ts';
import { Echo } from '../../../../src/kinds/echo/kind.ts';
import { keepChildrenOf } from '../../../../src/kinds/shared/cached-fields.ts';

const many = Array.from({ length: 10_000 }, (_, each) => `x-${each}`);
const metadata = {
  ...{ name: 'large', namespace: 'default', uid: 'uid-large', resourceVersion: '1' },
  creationTimestamp: '2026-01-01T00:00:00Z',
  labels: Object.fromEntries(many.map((name) => [name, name])),
  annotations: { text: 'x'.repeat(250_000) },
  finalizers: many.map((name) => `example.com/${name}`),
  ownerReferences: many.map((name) => ({ apiVersion: 'v1', kind: 'ConfigMap', name, uid: name })),
};
const job: Job = { metadata, spec: { template: { spec: { containers: many.map((name) => ({ name })) } } } };
const keep = keepChildrenOf(Echo);

test('of an object that no owner controls the cache keeps the identity, whatever its metadata contains', () => {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metadata;
  expect(keep(job)).toEqual({ metadata: { name, namespace, uid, resourceVersion, creationTimestamp } });
});

test('of the owner references the cache keeps that of the controller, which tells whose the object is', () => {
  const controller = controllerReference(BookStore, { metadata: { ...metadata, name: 'shop', uid: 'uid-shop' } });
  const kept = keep({ ...job, metadata: { ...metadata, ownerReferences: [...metadata.ownerReferences, controller] } });
  expect(kept.metadata.ownerReferences).toEqual([controller]);
});

test('a reference whose members no object can have is cut, and still says that there is a controller', () => {
  const text = 'x'.repeat(1_000_000);
  const controller = { apiVersion: `${text}/v1`, kind: text, name: text, uid: text, controller: true };
  const kept = keep({ ...job, metadata: { ...metadata, ownerReferences: [controller] } });
  expect(kept.metadata.ownerReferences).toMatchObject([{ controller: true }]);
  expect(JSON.stringify(kept).length).toBeLessThan(20_000);
});

test('an object of the same name of a kind of another group is no owner', () => {
  const controller = { apiVersion: 'other.example.com/v1', kind: Echo.kind, name: 'x', uid: 'uid-x', controller: true };
  expect(keep({ ...job, metadata: { ...metadata, ownerReferences: [controller] } })).not.toHaveProperty('spec');
});

test('a child is kept whole', () => {
  const controller = controllerReference(Echo, { metadata: { ...metadata, name: 'hello', uid: 'uid-hello' } });
  const child = { ...job, metadata: { ...metadata, ownerReferences: [controller] } };
  expect(keep(child)).toBe(child);
});

test('of a claim the cache keeps what is read, and the identity if no StatefulSet of a BookStore has its name', () => {
  const labels = { ...metadata.labels, 'app.kubernetes.io/name': 'bookstore' };
  const spec = { resources: { requests: { storage: '1Gi' } }, storageClassName: 'fast', volumeName: 'v' };
  const resources = { requests: { ...spec.resources.requests, ...metadata.labels }, limits: metadata.labels };
  const selector = { matchLabels: metadata.labels };
  const claim: PersistentVolumeClaim = { metadata: { ...metadata, labels }, spec: { ...spec, resources, selector } };
  expect(JSON.stringify(keepReadFields(claim)).length).toBeLessThan(500);
  expect(keepReadFields(claim)).not.toHaveProperty('spec');
  const named = { ...claim, metadata: { ...claim.metadata, name: 'data-shop-db-0' } };
  expect(keepReadFields(named)).toMatchObject({
    metadata: { labels: { 'app.kubernetes.io/name': 'bookstore' } },
    spec,
  });
  expect(JSON.stringify(keepReadFields(named)).length).toBeLessThan(500);
});
