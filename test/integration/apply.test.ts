import {
  Applier,
  type ApplyResult,
  controllerReference,
  type Kind,
  type KubeObject,
  keyOf,
  type Manifest,
} from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import {
  ConfigMap,
  CronJob,
  Deployment,
  Job,
  NetworkPolicy,
  PodDisruptionBudget,
  PodTemplate,
  Role,
  Secret,
  Service,
  StatefulSet,
} from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Store } from '../../packages/runtime/src/cache/store.ts';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { rewrite } from './environment/admission-policy.ts';
import { contentOf } from './environment/apply-property.ts';

let cluster: TestCluster;
let namespace: string;
let transport: Transport;
/** The operator's client; the cluster's own is that of somebody else. */
let client: HttpClient;
/** `PATCH 200`, of the operator alone. */
const requests: string[] = [];
const applier = new Applier({ fieldManager: 'applier' });

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
  transport = new Transport(await kubeconfigConnection(cluster.kubeconfig), {
    userAgent: 'test',
    observe: (method, code) => requests.push(`${method} ${code}`),
  });
  client = new HttpClient(transport, 'applier');
});
afterAll(async () => {
  await transport?.close();
  await cluster?.close();
});

let owner: ConfigMap;
let count = 0;
beforeEach(async () => {
  count += 1;
  owner = await cluster.client.create(ConfigMap, { metadata: { name: `owner-${count}`, namespace } });
  requests.length = 0;
});

/** The metadata of a child of the owner. */
const ours = (rest: object = {}) => ({
  name: `child-${count}`,
  namespace,
  ownerReferences: [controllerReference(ConfigMap, owner)],
  ...rest,
});

function storeOf<T extends KubeObject>(...objects: T[]): Store<T> {
  const store = new Store<T>();
  // As caches keep them.
  for (const object of objects) store.set({ ...object, metadata: { ...object.metadata, managedFields: undefined } });
  return store;
}

const apply = <T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, ...stored: T[]): Promise<ApplyResult<T>> =>
  applier.apply(kind, manifest, { client, store: storeOf(...stored) });

/** Returns the stored object after an apply. */
async function applied<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, ...stored: T[]): Promise<T> {
  const result = await apply(kind, manifest, ...stored);
  if (result.type !== 'created' && result.type !== 'applied') throw new Error(`not applied but ${result.type}`);
  return result.object;
}

const labels = { app: 'shop' };
const podTemplate = {
  metadata: { labels, annotations: {} },
  spec: {
    hostNetwork: false,
    automountServiceAccountToken: false,
    nodeSelector: {},
    tolerations: [{ key: 'dedicated', operator: 'Exists' }],
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway', labelSelector: { matchLabels: labels } },
    ],
    initContainers: [
      { name: 'first', image: 'tools:1' },
      { name: 'second', image: 'tools:1', restartPolicy: 'Always' },
    ],
    containers: [
      {
        name: 'shop',
        image: 'shop:1',
        stdin: false,
        args: [],
        env: [
          { name: 'EMPTY', value: '' },
          { name: 'NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
          { name: 'MEMORY', valueFrom: { resourceFieldRef: { resource: 'limits.memory' } } },
          { name: 'KEY', valueFrom: { secretKeyRef: { name: 'keys', key: 'key', optional: false } } },
        ],
        ports: [{ containerPort: 8080 }, { containerPort: 8080, protocol: 'UDP', name: 'dns' }],
        resources: {
          requests: { cpu: '1000m', memory: '1024Mi' },
          limits: { cpu: 2 as unknown as string, memory: '2e9' },
        },
        livenessProbe: { httpGet: { port: 8080, path: '/' } },
        readinessProbe: { tcpSocket: { port: 'dns' }, timeoutSeconds: 2 },
        securityContext: { allowPrivilegeEscalation: false, runAsUser: 0, capabilities: { drop: ['ALL'] } },
        volumeMounts: [
          { name: 'scratch', mountPath: '/tmp' },
          { name: 'all', mountPath: '/all', readOnly: true },
        ],
      },
    ],
    volumes: [
      { name: 'scratch', emptyDir: {} },
      {
        name: 'all',
        projected: {
          sources: [
            { serviceAccountToken: { path: 'token' } },
            { configMap: { name: 'settings', items: [{ key: 'a', path: 'b' }] } },
            { downwardAPI: { items: [{ path: 'name', fieldRef: { fieldPath: 'metadata.name' } }] } },
          ],
        },
      },
      { name: 'secret', secret: { secretName: 'keys' } },
    ],
  },
} as const;

const deployment = (changes: object = {}): Manifest<Deployment> => ({
  metadata: ours({ labels }),
  spec: {
    replicas: 0,
    paused: false,
    minReadySeconds: 0,
    selector: { matchLabels: labels },
    template: podTemplate,
    ...changes,
  },
});

/** Each kind with many of the fields that the server fills in, normalizes or leaves out. */
const examples: readonly [string, Kind, () => Manifest<KubeObject>][] = [
  ['Deployment', Deployment, deployment],
  [
    'StatefulSet',
    StatefulSet,
    () =>
      ({
        metadata: ours({ labels: {} }),
        spec: {
          serviceName: 'shop',
          replicas: 0,
          selector: { matchLabels: labels },
          template: podTemplate,
          volumeClaimTemplates: [
            {
              metadata: { name: 'data' },
              spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '0.5Gi' } } },
            },
          ],
        },
      }) satisfies Manifest<StatefulSet>,
  ],
  [
    'Service',
    Service,
    () =>
      ({
        metadata: ours(),
        spec: {
          selector: labels,
          publishNotReadyAddresses: false,
          ports: [
            { name: 'web', port: 80 },
            { name: 'tls', port: 443, targetPort: 'https' },
            { name: 'dns', port: 443, protocol: 'UDP', targetPort: 53 },
          ],
        },
      }) satisfies Manifest<Service>,
  ],
  [
    'CronJob',
    CronJob,
    () =>
      ({
        metadata: ours(),
        spec: {
          schedule: '0 * * * *',
          suspend: true,
          jobTemplate: {
            spec: {
              backoffLimit: 0,
              template: { ...podTemplate, spec: { ...podTemplate.spec, restartPolicy: 'Never' } },
            },
          },
        },
      }) satisfies Manifest<CronJob>,
  ],
  [
    'ConfigMap',
    ConfigMap,
    () =>
      ({ metadata: ours({ finalizers: [] }), data: { empty: '', text: 'a' }, binaryData: {} }) as Manifest<KubeObject>,
  ],
  [
    'Secret',
    Secret,
    () => ({ metadata: ours(), stringData: { text: 'Hola, 世界!' }, data: { raw: 'AA==' } }) satisfies Manifest<Secret>,
  ],
];

describe.each(examples)('a %s', (name, kind, manifestOf) => {
  // Each of these has a pod template, in which the server adds defaults to atomic fields: `fieldRef` and others.
  const hasAtomicDefaults = ['Deployment', 'StatefulSet', 'CronJob'].includes(name);

  test(`that is up to date costs no request for any manifest, ${hasAtomicDefaults ? 'and one' : 'also'} after a restart`, async () => {
    const created = await apply(kind, manifestOf());
    expect(created.type).toBe('created');
    expect(requests).toEqual(['PATCH 201']);
    const { object } = created as { object: KubeObject };
    expect(await apply(kind, manifestOf(), object)).toMatchObject({ type: 'unchanged' });
    expect(requests).toHaveLength(1);
    const restarted = new Applier({ fieldManager: 'applier' });
    const store = storeOf(object);
    for (const _ of [1, 2]) {
      expect(await restarted.apply(kind, manifestOf(), { client, store })).toMatchObject({ type: 'unchanged' });
    }
    // Another version of the same content.
    store.set(await cluster.client.apply(kind, { metadata: { ...keyOf(object), annotations: { theirs: 'x' } } }));
    expect(await restarted.apply(kind, manifestOf(), { client, store })).toMatchObject({ type: 'unchanged' });
    expect(requests.slice(1)).toEqual(hasAtomicDefaults ? ['PATCH 200'] : []);
  });
});

describe('the applier detects and repairs drift within an atomic field', () => {
  const networkPolicy = () =>
    ({
      metadata: ours(),
      spec: { podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] },
    }) as Manifest<KubeObject>;
  const cases: readonly [string, Kind, () => Manifest<KubeObject>, object, string][] = [
    [
      'a selector of all pods that was narrowed',
      NetworkPolicy,
      networkPolicy,
      { spec: { podSelector: { matchLabels: { app: 'other' } } } },
      '.spec.podSelector.matchLabels',
    ],
    [
      'an ingress peer that was let in from every namespace',
      NetworkPolicy,
      networkPolicy,
      { spec: { ingress: [{ from: [{ podSelector: {}, namespaceSelector: {} }] }] } },
      '.spec.ingress[0].from[0].namespaceSelector',
    ],
    [
      'the selector of a disruption budget',
      PodDisruptionBudget,
      () => ({ metadata: ours(), spec: { maxUnavailable: 1, selector: {} } }) as Manifest<KubeObject>,
      { spec: { selector: { matchLabels: { app: 'other' } } } },
      '.spec.selector.matchLabels',
    ],
    [
      "the names in a Role's rule",
      Role,
      () =>
        ({
          metadata: ours(),
          rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }],
        }) as Manifest<KubeObject>,
      { rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'], resourceNames: ['one'] }] },
      '.rules[0].resourceNames',
    ],
    [
      'the seconds of a toleration',
      Deployment,
      () =>
        deployment({
          template: {
            metadata: { labels },
            spec: {
              tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoExecute' }],
              containers: [{ name: 'shop', image: 'shop:1' }],
            },
          },
        }),
      {
        spec: {
          template: {
            spec: { tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 9 }] },
          },
        },
      },
      '.spec.template.spec.tolerations[0].tolerationSeconds',
    ],
    [
      'a second variable of the same name, which holds',
      Deployment,
      () =>
        deployment({
          template: {
            metadata: { labels },
            spec: { containers: [{ name: 'shop', image: 'shop:1', env: [{ name: 'A', value: '1' }] }] },
          },
        }),
      {
        spec: {
          template: {
            spec: {
              containers: [
                {
                  name: 'shop',
                  image: 'shop:1',
                  env: [
                    { name: 'A', value: '1' },
                    { name: 'A', value: '2' },
                  ],
                },
              ],
            },
          },
        },
      },
      '.spec.template.spec.containers[shop].env[A]',
    ],
    [
      'a node label, in a kind whose schema the applier does not know',
      PodTemplate,
      () =>
        ({
          metadata: ours(),
          template: { spec: { nodeSelector: { disk: 'fast' }, containers: [{ name: 'shop', image: 'shop:1' }] } },
        }) as Manifest<KubeObject>,
      { template: { spec: { nodeSelector: { zone: 'a' } } } },
      '.template[spec][nodeSelector][zone]',
    ],
  ];

  test.each(cases)('%s', async (_, kind, manifestOf, change, difference) => {
    const mine = await applied(kind, manifestOf());
    const theirs = await cluster.client.patch(kind, keyOf(mine), { type: 'merge', body: change });
    requests.length = 0;
    const result = await apply(kind, manifestOf(), theirs);
    expect(result).toMatchObject({ type: 'applied', difference });
    const { object } = result as { object: KubeObject };
    expect(contentOf(object)).toEqual(contentOf(mine));
    expect(await apply(kind, manifestOf(), object)).toMatchObject({ type: 'unchanged' });
    expect(requests).toEqual(['PATCH 200']);
    // Once more: what was seen once is not taken for a default.
    const again = await cluster.client.patch(kind, keyOf(mine), { type: 'merge', body: change });
    expect(await apply(kind, manifestOf(), again)).toMatchObject({ type: 'applied', difference });
  });
});

test('a field that a webhook rewrites at each write is applied only once', async () => {
  // Its own: a policy that was removed is in force for a moment more.
  const rewritten = await cluster.namespace();
  const other = await cluster.client.create(ConfigMap, { metadata: { name: 'owner', namespace: rewritten } });
  const ownerReferences = [controllerReference(ConfigMap, other)];
  const manifest = { metadata: { name: 'child', namespace: rewritten, ownerReferences }, data: { a: '1' } };
  await applied(ConfigMap, manifest);
  const policy = await rewrite(cluster.client, {
    namespace: rewritten,
    resource: 'configmaps',
    // Another value each time.
    patch: '[JSONPatch{op: "add", path: "/data", value: {"a": oldObject.metadata.resourceVersion}}]',
    isInForce: async () => {
      const body = { data: { a: 'x' } };
      const { data } = await cluster.client.patch(ConfigMap, keyOf(other), { type: 'merge', body });
      return data?.a !== 'x';
    },
  });
  try {
    const { name } = manifest.metadata;
    const key = { namespace: rewritten, name };
    let object = await cluster.client.patch(ConfigMap, key, { type: 'merge', body: { data: { b: '2' } } });
    requests.length = 0;
    for (let event = 0; event < 5; event += 1) {
      const result = await apply(ConfigMap, manifest, object);
      expect(result.type).toBe(event === 0 ? 'applied' : 'unchanged');
      object = await cluster.client.get(ConfigMap, key);
    }
    expect(requests).toEqual(['PATCH 200']);
  } finally {
    await policy.remove();
  }
});

test('a manifest that changes after an apply is applied again', async () => {
  const data: Record<string, string> = { a: '1' };
  const manifest = { metadata: ours(), data };
  const mine = await applied(ConfigMap, manifest);
  data.a = '2';
  data.b = '3';
  expect(await apply(ConfigMap, manifest, mine)).toMatchObject({
    type: 'applied',
    object: { data: { a: '2', b: '3' } },
  });
});

describe('a difference', () => {
  const container = podTemplate.spec.containers[0];
  const withContainer = (changes: object): Manifest<Deployment> =>
    deployment({
      template: { ...podTemplate, spec: { ...podTemplate.spec, containers: [{ ...container, ...changes }] } },
    });

  test.each([
    ['a changed value', () => withContainer({ image: 'shop:2' }), '.spec.template.spec.containers[shop].image'],
    ['a new field', () => withContainer({ tty: true }), '.metadata.annotations[applier/applied]'],
    [
      'another order',
      () => withContainer({ env: container.env.toReversed() }),
      '.spec.template.spec.containers[shop].env[MEMORY]',
    ],
    ['a removed field', () => withContainer({ livenessProbe: undefined }), '.metadata.annotations[applier/applied]'],
    ['a removed item', () => withContainer({ env: container.env.slice(1) }), '.metadata.annotations[applier/applied]'],
    ['a removed label', () => ({ ...deployment(), metadata: ours() }), '.metadata.annotations[applier/applied]'],
  ])('costs one request, which removes it: %s', async (_, changed, difference) => {
    const before = await applied(Deployment, deployment());
    requests.length = 0;
    const result = await apply(Deployment, changed(), before);
    expect(result).toMatchObject({ type: 'applied', difference });
    expect(requests).toEqual(['PATCH 200']);
    const { object } = result as { object: typeof before };
    expect(object.metadata.resourceVersion).not.toBe(before.metadata.resourceVersion);
    expect(await apply(Deployment, changed(), object)).toMatchObject({ type: 'unchanged' });
    expect(requests).toHaveLength(1);
  });

  test('a field that the manifest no longer has is removed from the server', async () => {
    const before = await applied(Deployment, deployment());
    const after = await applied(Deployment, withContainer({ livenessProbe: undefined, env: [] }), before);
    const [shop] = after.spec?.template.spec?.containers ?? [];
    expect(shop).not.toHaveProperty('livenessProbe');
    expect(shop).not.toHaveProperty('env');
  });
});

describe('other field managers', () => {
  const manifest = (data: Record<string, string>): Manifest<ConfigMap> => ({ metadata: ours(), data });

  test('may set their own fields, which stay and cost no request', async () => {
    const mine = await applied(ConfigMap, manifest({ a: '1' }));
    const theirs = await cluster.client.apply(ConfigMap, {
      metadata: { ...keyOf(mine), labels: { theirs: 'x' } },
      data: { b: '2' },
    });
    requests.length = 0;
    expect(await apply(ConfigMap, manifest({ a: '1' }), theirs)).toMatchObject({ type: 'unchanged' });
    expect(requests).toEqual([]);
    const changed = await applied(ConfigMap, manifest({ a: '3' }), theirs);
    expect(changed.data).toEqual({ a: '3', b: '2' });
    expect(changed.metadata.labels).toEqual({ theirs: 'x' });
  });

  test('that change a desired field are overruled', async () => {
    const mine = await applied(ConfigMap, manifest({ a: '1' }));
    const theirs = await cluster.client.apply(ConfigMap, { metadata: keyOf(mine), data: { a: '2' } }, { force: true });
    const result = await apply(ConfigMap, manifest({ a: '1' }), theirs);
    expect(result).toMatchObject({ type: 'applied', difference: '.data[a]', object: { data: { a: '1' } } });
  });

  test('may extend and reverse a list: one apply restores our order, and the next sends nothing', async () => {
    const mine = await applied(Deployment, deployment());
    const theirs = [{ name: 'THEIRS', value: 'x' }, ...podTemplate.spec.containers[0].env.toReversed()];
    const containers = [{ name: 'shop', env: theirs }];
    const turned = await cluster.client.apply(
      Deployment,
      { metadata: keyOf(mine), spec: { template: { spec: { containers } } } } as unknown as typeof mine,
      { force: true },
    );
    expect(turned.spec?.template.spec?.containers[0]?.env?.[0]?.name).toBe('THEIRS');
    const restored = await applied(Deployment, deployment(), turned);
    expect(restored.spec?.template.spec?.containers[0]?.env?.map(({ name }) => name)).toContain('THEIRS');
    expect(await apply(Deployment, deployment(), restored)).toMatchObject({ type: 'unchanged' });
  });

  test('keep an object under our name unchanged, whether the store has it or not', async () => {
    const holder = await cluster.client.create(ConfigMap, { metadata: { name: `child-${count}`, namespace } });
    for (const known of [[], [holder]]) {
      const result = await apply(ConfigMap, manifest({ a: '1' }), ...known);
      expect(result).toMatchObject({ type: 'nameTaken', holder: { metadata: { uid: holder.metadata.uid } } });
    }
    expect(requests).toEqual(['PATCH 409', 'GET 200']);
    expect(await cluster.client.get(ConfigMap, keyOf(holder))).toEqual(holder);
  });

  test('include the controller of a former owner with the same name', async () => {
    const before = await applied(ConfigMap, manifest({ a: '1' }));
    owner = { ...owner, metadata: { ...owner.metadata, uid: '00000000-0000-4000-8000-000000000000' } };
    expect(await apply(ConfigMap, manifest({ a: '2' }), before)).toMatchObject({ type: 'nameTaken' });
  });
});

describe('a stale store', () => {
  const manifest = (a: string): Manifest<ConfigMap> => ({ metadata: ours(), data: { a } });

  test('without the object that we created costs a get, and creates no second one', async () => {
    const { metadata } = await applied(ConfigMap, manifest('1'));
    requests.length = 0;
    expect(await apply(ConfigMap, manifest('1'))).toMatchObject({ type: 'unchanged', object: { metadata } });
    expect(await apply(ConfigMap, manifest('2'))).toMatchObject({ type: 'applied', object: { data: { a: '2' } } });
    expect(requests).toEqual(['PATCH 409', 'GET 200', 'PATCH 409', 'GET 200', 'PATCH 200']);
  });

  test('with a deleted object leads to a Conflict, and nothing is created', async () => {
    const before = await applied(ConfigMap, manifest('1'));
    await cluster.client.delete(ConfigMap, keyOf(before));
    await expect(apply(ConfigMap, manifest('2'), before)).rejects.toMatchObject({ code: 409, reason: 'Conflict' });
    expect(await cluster.isGone(() => cluster.client.get(ConfigMap, keyOf(before)))).toBe(true);
  });

  test('with an object that another one replaced leads to a Conflict, and the other one stays unchanged', async () => {
    const before = await applied(ConfigMap, manifest('1'));
    await cluster.client.delete(ConfigMap, keyOf(before));
    const other = await cluster.client.create(ConfigMap, { metadata: keyOf(before), data: { a: 'theirs' } });
    await expect(apply(ConfigMap, manifest('2'), before)).rejects.toMatchObject({
      code: 409,
      reason: 'Conflict',
      message: expect.stringContaining(before.metadata.uid),
    });
    expect(await cluster.client.get(ConfigMap, keyOf(before))).toEqual(other);
  });
});

test('an object that is being deleted is left alone', async () => {
  const manifest = { metadata: ours({ finalizers: ['test.example/wait'] }), data: { a: '1' } };
  const before = await applied(ConfigMap, manifest);
  await cluster.client.delete(ConfigMap, keyOf(before));
  const going = await cluster.client.get(ConfigMap, keyOf(before));
  requests.length = 0;
  const changed = { metadata: ours(), data: { a: '2' } };
  expect(await apply(ConfigMap, changed, going)).toMatchObject({ type: 'terminating' });
  expect(requests).toEqual([]);
  await cluster.client.apply(ConfigMap, { metadata: keyOf(before) });
  await cluster.client.patch(ConfigMap, keyOf(before), { type: 'merge', body: { metadata: { finalizers: null } } });
});

describe('a Job', () => {
  const job = (): Manifest<Job> => ({
    metadata: ours(),
    spec: { suspend: true, template: { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'x:1' }] } } },
  });
  const createOnce = (...stored: Job[]) => applier.createOnce(Job, job(), { client, store: storeOf(...stored) });

  test('is created once, whether the store has it or not', async () => {
    const created = await createOnce();
    if (created.type !== 'created') throw new Error(`not created but ${created.type}`);
    const { uid } = created.object.metadata;
    expect(await createOnce(created.object)).toMatchObject({ type: 'unchanged' });
    expect(requests).toEqual(['POST 201']);
    expect(await createOnce()).toMatchObject({ type: 'unchanged', object: { metadata: { uid } } });
    expect(requests).toEqual(['POST 201', 'POST 409', 'GET 200']);
  });

  test('of another owner under the name is reported, and stays', async () => {
    const { ownerReferences: _, ...metadata } = job().metadata;
    const holder = await cluster.client.create(Job, { ...job(), metadata });
    const { uid } = holder.metadata;
    expect(await createOnce()).toMatchObject({ type: 'nameTaken', holder: { metadata: { uid } } });
    expect(await createOnce(holder)).toMatchObject({ type: 'nameTaken', holder: { metadata: { uid } } });
  });
});
