import type { Kind } from '@echoperator/runtime';
import {
  ConfigMap,
  CoreEvent,
  CustomResourceDefinition,
  Deployment,
  Job,
  Lease,
  Namespace,
  PersistentVolumeClaim,
  Pod,
  Secret,
  Service,
  StatefulSet,
} from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import { apiVersionOf } from '../../../../packages/runtime/src/kind/kind.ts';
import { canonicalQuantity } from '../../../../packages/testing/src/simulation/built-in-decoding.ts';
import { sameValue } from '../../../../packages/testing/src/simulation/built-in-refusals.ts';
import { builtInStrategy } from '../../../../packages/testing/src/simulation/built-in-resources.ts';
import {
  NotSimulatedError,
  RefusedError,
  type StoredObject,
} from '../../../../packages/testing/src/simulation/strategy.ts';

const strategyOf = (kind: Kind) => builtInStrategy(kind)!;

const object = (kind: Kind, content: object, name = 'shop'): StoredObject => ({
  apiVersion: apiVersionOf(kind),
  kind: kind.kind,
  metadata: { name, namespace: 'default', uid: '7d2a6d3c-0001' },
  ...content,
});

/** Returns what the API server stores for a creation. */
const created = (kind: Kind, content: object, name?: string) =>
  strategyOf(kind).create(strategyOf(kind).decode(object(kind, content, name))) as StoredObject & {
    readonly spec: Record<string, unknown>;
  };

/** Returns what the API server stores for a change of a stored object. */
const updated = (kind: Kind, old: StoredObject, content: object, subresource?: 'status') =>
  strategyOf(kind).update(strategyOf(kind).decode({ ...old, ...content }), old, subresource);

function refusal(request: () => unknown): RefusedError['status'] {
  try {
    request();
  } catch (error) {
    if (error instanceof RefusedError) return error.status;
    throw error;
  }
  throw new Error('was not refused');
}

const labels = { app: 'shop' };
const podOf = (spec: object) => ({ containers: [{ name: 'a', image: 'a:1' }], ...spec });
const workload = (spec: object = {}) => ({
  spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: podOf({}) }, ...spec },
});
const jobOf = (spec: object = {}) => ({ spec: { template: { spec: podOf({ restartPolicy: 'Never' }) }, ...spec } });

describe('a built-in kind', () => {
  test('has no strategy unless its defaults are recorded', () => {
    expect(builtInStrategy(CustomResourceDefinition)).toBeUndefined();
    expect(builtInStrategy(CoreEvent)).toBeUndefined();
    expect(builtInStrategy({ ...Deployment, version: 'v1beta1' })).toBeUndefined();
  });

  test('does not change what it is given', () => {
    const manifest = object(Job, jobOf());
    const before = structuredClone(manifest);
    strategyOf(Job).create(strategyOf(Job).decode(manifest));
    expect(manifest).toEqual(before);
  });
});

describe('decoding', () => {
  test('prunes unknown fields at every level', () => {
    const { spec } = created(Pod, { unknown: 1, spec: podOf({ unknown: 1, volumes: [{ name: 'v', unknown: 1 }] }) });
    expect(JSON.stringify(spec)).not.toContain('unknown');
  });

  test('drops the zeros that the API server does not store, and keeps the others', () => {
    const { spec } = created(Deployment, workload({ replicas: 0, paused: false, minReadySeconds: 0 }));
    expect(spec).toMatchObject({ replicas: 0 });
    expect(Object.keys(spec)).not.toEqual(expect.arrayContaining(['paused']));
    expect(Object.keys(spec)).not.toEqual(expect.arrayContaining(['minReadySeconds']));
  });

  test.each([
    ['a:1', 'IfNotPresent'],
    ['a', 'Always'],
    ['a:latest', 'Always'],
    ['registry:5000/a', 'Always'],
    [`a@sha256:${'0'.repeat(64)}`, 'IfNotPresent'],
    ['NO IMAGE', 'IfNotPresent'],
  ])('the image %s has the pull policy %s', (image, imagePullPolicy) => {
    const { spec } = created(Pod, { spec: { containers: [{ name: 'a', image }] } });
    expect(spec.containers).toMatchObject([{ imagePullPolicy }]);
  });

  test('moves the texts of a Secret into its data', () => {
    const secret = created(Secret, { stringData: { a: 'ü' }, data: { a: 'AA==', b: 'AA==' } });
    expect(secret).toMatchObject({ data: { a: 'w7w=', b: 'AA==' }, type: 'Opaque' });
    expect(secret).not.toHaveProperty('stringData');
  });

  test.each([
    ['a text for a number', Deployment, workload({ replicas: '1' })],
    ['a number for a text', Pod, { spec: podOf({ nodeName: 1 }) }],
    ['a fraction for an integer', Deployment, workload({ replicas: 1.5 })],
    ['a map for a list', Pod, { spec: { containers: {} } }],
    ['a number in a map of texts', ConfigMap, { data: { a: 1 } }],
    ['no base64', Secret, { data: { a: '?' } }],
    ['no quantity', PersistentVolumeClaim, { spec: { resources: { requests: { storage: 'x' } } } }],
    ['a time without microseconds', Lease, { spec: { renewTime: '2026-01-01T00:00:00Z' } }],
  ])('refuses %s with BadRequest', (_, kind, content) => {
    expect(refusal(() => created(kind, content))).toMatchObject({ code: 400, reason: 'BadRequest' });
  });

  test('does not simulate a struct whose defaults are not recorded', () => {
    const pod = { spec: podOf({ volumes: [{ name: 'v', rbd: { monitors: ['a'], image: 'i' } }] }) };
    expect(() => created(Pod, pod)).toThrow(NotSimulatedError);
  });

  test.each([
    ['1000m', '1'],
    ['0.5', '500m'],
    ['1.5Gi', '1536Mi'],
    ['512Ki', '512Ki'],
    ['1023', '1023'],
    ['1024Mi', '1Gi'],
    ['0.5Ki', '512'],
    ['100000', '100k'],
    ['1e3', '1e3'],
    ['10e2', '1e3'],
    ['0Gi', '0'],
    [2, '2'],
  ])('writes the quantity %s as %s', (quantity, canonical) => {
    expect(canonicalQuantity(quantity, 'cpu')).toBe(canonical);
  });

  test('rounds resources up to thousandths', () => {
    expect(canonicalQuantity('100n', 'cpu', 'milli')).toBe('1m');
  });
});

describe('a creation', () => {
  test('drops the status, and sets the generation', () => {
    expect(created(Deployment, { ...workload(), status: { replicas: 3 } })).toMatchObject({
      status: {},
      metadata: { generation: 1 },
    });
  });

  test.each([
    [
      PersistentVolumeClaim,
      { spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } } },
      'Pending',
    ],
    [Pod, { spec: podOf({}) }, 'Pending'],
    [Namespace, {}, 'Active'],
  ])('of %p has the phase of a new object', (kind, content, phase) => {
    expect(created(kind, content).status).toMatchObject({ phase });
  });

  test('gives a Job the selector and the labels of its uid and name', () => {
    const { spec } = created(Job, jobOf());
    const own = { 'job-name': 'shop', 'batch.kubernetes.io/controller-uid': '7d2a6d3c-0001' };
    expect(spec).toMatchObject({
      completions: 1,
      selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': '7d2a6d3c-0001' } },
      template: { metadata: { labels: own } },
    });
  });

  test('gives a Service the same addresses in each run', () => {
    const service = { spec: { type: 'NodePort', ports: [{ port: 80 }] } };
    const { spec } = created(Service, service);
    expect(spec).toMatchObject({ clusterIP: expect.stringMatching(/^10\.96\./), ipFamilies: ['IPv4'] });
    expect(created(Service, service).spec).toEqual(spec);
  });

  test.each([
    ['a Job whose pods run for ever', Job, jobOf({ template: { spec: podOf({}) } }), /restartPolicy: Required value/],
    ['no containers', Pod, { spec: { containers: [] } }, /spec.containers: Required value/],
    [
      'two containers of a name',
      Pod,
      { spec: { containers: [...podOf({}).containers, ...podOf({}).containers] } },
      /Duplicate/,
    ],
    ['a selector of other pods', Deployment, workload({ selector: { matchLabels: { app: 'x' } } }), /does not match/],
    ['no selector', StatefulSet, workload({ selector: null }), /spec.selector: Required value/],
    ['a Service without ports', Service, { spec: {} }, /spec.ports: Required value/],
    ['a claim without a size', PersistentVolumeClaim, { spec: { accessModes: ['ReadWriteOnce'] } }, /Required value/],
  ])('refuses %s', (_, kind, content, message) => {
    const status = refusal(() => created(kind, content));
    expect(status).toMatchObject({ code: 422, reason: 'Invalid', message: expect.stringMatching(message) });
  });

  test.each([
    [Deployment, workload(), 'a.b', true],
    [StatefulSet, workload(), 'a.b', false],
    [Service, { spec: { ports: [{ port: 80 }] } }, 'a.b', false],
    [ConfigMap, {}, 'A', false],
  ])('of %p takes names of its form', (kind, content, name, isValid) => {
    if (isValid) expect(created(kind, content, name).metadata.name).toBe(name);
    else expect(refusal(() => created(kind, content, name)).message).toMatch(/metadata.name/);
  });
});

describe('a change', () => {
  const deployment = created(Deployment, workload());

  test('increments the generation only if it changes the spec, or the annotations of a Deployment', () => {
    const generationAfter = (content: object) => updated(Deployment, deployment, content).metadata.generation;
    expect(generationAfter({})).toBe(1);
    expect(generationAfter({ metadata: { ...deployment.metadata, labels: { a: 'b' } } })).toBe(1);
    expect(generationAfter(workload({ replicas: 2 }))).toBe(2);
    expect(generationAfter({ metadata: { ...deployment.metadata, annotations: { a: 'b' } } })).toBe(2);
  });

  test('keeps the status, and a change of the status keeps the rest', () => {
    const content = { ...workload({ replicas: 2 }), status: { replicas: 2 } };
    expect(updated(Deployment, deployment, content)).toMatchObject({ spec: { replicas: 2 }, status: {} });
    const status = updated(Deployment, deployment, content, 'status');
    expect(status).toMatchObject({ spec: { replicas: 1 }, status: { replicas: 2 }, metadata: { generation: 1 } });
  });

  const job = created(Job, jobOf());
  const claim = created(PersistentVolumeClaim, {
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  });
  const grown = { spec: { ...claim.spec, resources: { requests: { storage: '2Gi' } } } };
  const bound = { ...claim, status: { phase: 'Bound', capacity: { storage: '1Gi' } } };
  const pod = created(Pod, { spec: podOf({}) });
  const service = created(Service, { spec: { ports: [{ port: 80 }] } });

  test.each([
    ["a Deployment's selector", Deployment, deployment, workload({ selector: { matchLabels: { ...labels, a: 'b' } } })],
    ["a Job's template", Job, job, { spec: { ...job.spec, template: jobOf().spec.template } }],
    ["a StatefulSet's service", StatefulSet, created(StatefulSet, workload()), workload({ serviceName: 'other' })],
    ["an unbound claim's size", PersistentVolumeClaim, claim, grown],
    ["a Pod's command", Pod, pod, { spec: { ...pod.spec, containers: [{ name: 'a', image: 'a:1', command: ['x'] }] } }],
    ["a Service's address", Service, service, { spec: { ...service.spec, clusterIP: 'None', clusterIPs: ['None'] } }],
    ['an immutable ConfigMap', ConfigMap, created(ConfigMap, { immutable: true }), { data: { a: '1' } }],
    ["a Secret's type", Secret, created(Secret, {}), { type: 'other' }],
  ])('of %s is refused', (_, kind, old, content) => {
    expect(refusal(() => updated(kind, old, content))).toMatchObject({ code: 422, reason: 'Invalid' });
  });

  test('may grow a bound claim, and change the image of a Pod', () => {
    expect(updated(PersistentVolumeClaim, bound, grown).spec).toMatchObject(grown.spec);
    const containers = [{ name: 'a', image: 'a:2' }];
    expect(updated(Pod, pod, { spec: { ...pod.spec, containers } })).toMatchObject({
      spec: { containers },
      metadata: { generation: 2 },
    });
  });

  test('without an address keeps that of the Service', () => {
    expect(updated(Service, service, { spec: { ports: [{ port: 81 }] } }).spec).toMatchObject({
      clusterIP: service.spec.clusterIP,
    });
  });
});

test('values are the same whatever the order of their members', () => {
  expect(sameValue({ a: 1, b: [{}, null] }, { b: [{}, null], a: 1 })).toBe(true);
  for (const other of [{ a: 1, b: [null, {}] }, { a: 1 }, { a: 1, c: [{}, null] }, [], null]) {
    expect(sameValue({ a: 1, b: [{}, null] }, other)).toBe(false);
  }
});

test('a deleted Pod stays for its grace period once it is scheduled, until it has ended', () => {
  const grace = (content: object, requested?: number) =>
    strategyOf(Pod).deletionGraceSeconds?.(object(Pod, content), requested);
  const scheduled = { spec: { nodeName: 'a', terminationGracePeriodSeconds: 5 } };
  expect(grace({ spec: { terminationGracePeriodSeconds: 5 } })).toBe(0);
  expect(grace(scheduled)).toBe(5);
  expect(grace(scheduled, 0)).toBe(0);
  expect(grace({ ...scheduled, status: { phase: 'Succeeded' } })).toBe(0);
});
