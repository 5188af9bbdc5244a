import { BookStore, Echo, Pet, PodSet, PostgresWriter, ScheduledEcho } from '../../../src/api/index.ts';
import { builtInKind, type Kind, type KubeObject } from '../../../src/runtime/index.ts';

/** A kind of the table of built-in types, or one of ours, and what a child of it may be. */
export interface ChildExample {
  readonly kind: Kind;
  /** All but the metadata. */
  readonly content: object;
  /** It limits or refuses pods in its namespace, so it is in one of its own. */
  readonly limitsPods?: true;
}

const labels = { app: 'shop' };
const template = {
  metadata: { labels },
  spec: {
    nodeSelector: { disk: 'fast' },
    tolerations: [{ key: 'dedicated', operator: 'Exists', effect: 'NoExecute' }],
    securityContext: { runAsNonRoot: true, supplementalGroups: [1] },
    affinity: {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 1, podAffinityTerm: { topologyKey: 'zone', labelSelector: { matchLabels: labels } } },
        ],
      },
    },
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway', labelSelector: { matchLabels: labels } },
    ],
    initContainers: [{ name: 'first', image: 'tools:1' }],
    containers: [
      {
        name: 'shop',
        image: 'shop:1',
        args: ['a', 'b'],
        env: [
          { name: 'A', value: '1' },
          { name: 'NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
          { name: 'MEMORY', valueFrom: { resourceFieldRef: { resource: 'limits.memory' } } },
          { name: 'KEY', valueFrom: { secretKeyRef: { name: 'keys', key: 'key' } } },
        ],
        ports: [{ containerPort: 8080 }, { containerPort: 8080, protocol: 'UDP', name: 'dns' }],
        resources: { requests: { cpu: '1000m' }, limits: { memory: '1Gi' } },
        livenessProbe: { httpGet: { port: 8080, path: '/', httpHeaders: [{ name: 'X', value: '1' }] } },
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        volumeMounts: [{ name: 'scratch', mountPath: '/tmp' }],
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
          ],
        },
      },
    ],
  },
};
const never = { ...template, spec: { ...template.spec, restartPolicy: 'Never' } };
const workload = { replicas: 0, selector: { matchLabels: labels }, template };
const claim = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };

const builtIn = (apiVersion: string, kind: string, content: object, rest: object = {}): ChildExample => {
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  const plural = kind.toLowerCase().replace(/(s|y)$/, (end) => (end === 'y' ? 'ie' : 'se'));
  const scope = 'scope' in rest ? 'Cluster' : 'Namespaced';
  return { kind: builtInKind<object>({ group, version, kind, plural: `${plural}s`, scope }), content, ...rest };
};
const cluster = { scope: 'Cluster' } as const;
const rbac = 'rbac.authorization.k8s.io';

/** Each kind of the table of built-in types, then each of ours. */
export const childExamples: readonly ChildExample[] = [
  builtIn('apps/v1', 'DaemonSet', { spec: { selector: workload.selector, template } }),
  builtIn('apps/v1', 'Deployment', { spec: workload }),
  builtIn('apps/v1', 'ReplicaSet', { spec: workload }),
  builtIn('apps/v1', 'StatefulSet', {
    spec: { ...workload, serviceName: 'shop', volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claim }] },
  }),
  builtIn('autoscaling/v2', 'HorizontalPodAutoscaler', {
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'shop' },
      maxReplicas: 3,
      metrics: [
        { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
      ],
      behavior: { scaleDown: { policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }] } },
    },
  }),
  builtIn('batch/v1', 'CronJob', {
    spec: { schedule: '0 * * * *', suspend: true, jobTemplate: { spec: { template: never } } },
  }),
  builtIn('batch/v1', 'Job', { spec: { suspend: true, template: never } }),
  builtIn('coordination.k8s.io/v1', 'Lease', { spec: { holderIdentity: 'a', leaseDurationSeconds: 15 } }),
  builtIn('v1', 'ConfigMap', { data: { a: '1', empty: '' }, binaryData: { b: 'AA==' } }),
  builtIn(
    'v1',
    'LimitRange',
    { spec: { limits: [{ type: 'Container', default: { cpu: '1' }, max: { cpu: '2' } }] } },
    { limitsPods: true },
  ),
  builtIn('v1', 'Namespace', {}, cluster),
  builtIn(
    'v1',
    'PersistentVolume',
    {
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadWriteOnce'],
        persistentVolumeReclaimPolicy: 'Retain',
        mountOptions: ['ro'],
        local: { path: '/data' },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: 'zone', operator: 'In', values: ['a'] }] }],
          },
        },
      },
    },
    cluster,
  ),
  // Of the class for which no volume is played: binding one would change the claim under the test's hands.
  builtIn('v1', 'PersistentVolumeClaim', { spec: { ...claim, storageClassName: 'without-volumes' } }),
  // A token's volume would need a service account.
  builtIn('v1', 'Pod', { spec: { ...never.spec, volumes: [{ name: 'scratch', emptyDir: {} }] } }),
  builtIn(
    'v1',
    'ResourceQuota',
    {
      spec: {
        hard: { pods: '100' },
        scopeSelector: { matchExpressions: [{ scopeName: 'PriorityClass', operator: 'In', values: ['high'] }] },
      },
    },
    { limitsPods: true },
  ),
  builtIn('v1', 'Secret', { stringData: { a: '1' }, data: { b: 'AA==' } }),
  builtIn('v1', 'Service', {
    spec: {
      selector: labels,
      ports: [
        { name: 'web', port: 80 },
        { name: 'dns', port: 53, protocol: 'UDP' },
      ],
    },
  }),
  builtIn('v1', 'ServiceAccount', { imagePullSecrets: [{ name: 'pull' }], secrets: [{ name: 'keys' }] }),
  builtIn('discovery.k8s.io/v1', 'EndpointSlice', {
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.1.0.1'], conditions: { ready: true }, hints: { forZones: [{ name: 'a' }] } }],
    ports: [{ name: 'web', port: 80 }],
  }),
  builtIn('networking.k8s.io/v1', 'Ingress', {
    spec: {
      tls: [{ hosts: ['a.example'], secretName: 'tls' }],
      rules: [
        {
          host: 'a.example',
          http: {
            paths: [{ path: '/', pathType: 'Prefix', backend: { service: { name: 'shop', port: { number: 80 } } } }],
          },
        },
      ],
    },
  }),
  {
    kind: builtInKind<object>({
      group: 'networking.k8s.io',
      version: 'v1',
      kind: 'NetworkPolicy',
      plural: 'networkpolicies',
    }),
    content: {
      spec: {
        podSelector: {},
        ingress: [{ from: [{ podSelector: {} }, { ipBlock: { cidr: '10.0.0.0/8' } }], ports: [{ port: 80 }] }],
      },
    },
  },
  builtIn('policy/v1', 'PodDisruptionBudget', { spec: { maxUnavailable: 1, selector: {} } }),
  builtIn(
    `${rbac}/v1`,
    'ClusterRole',
    {
      rules: [
        { apiGroups: [''], resources: ['pods'], verbs: ['get'] },
        { nonResourceURLs: ['/x'], verbs: ['get'] },
      ],
    },
    cluster,
  ),
  builtIn(
    `${rbac}/v1`,
    'ClusterRoleBinding',
    {
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'none-such' },
      subjects: [
        { kind: 'ServiceAccount', name: 'a', namespace: 'b' },
        { kind: 'User', name: 'u' },
      ],
    },
    cluster,
  ),
  builtIn(`${rbac}/v1`, 'Role', { rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'list'] }] }),
  builtIn(`${rbac}/v1`, 'RoleBinding', {
    roleRef: { apiGroup: rbac, kind: 'Role', name: 'none-such' },
    subjects: [
      { kind: 'ServiceAccount', name: 'a' },
      { kind: 'Group', name: 'g' },
    ],
  }),
  builtIn('scheduling.k8s.io/v1', 'PriorityClass', { value: 5, description: 'Low.' }, cluster),
  builtIn(
    'storage.k8s.io/v1',
    'StorageClass',
    {
      provisioner: 'none.example',
      parameters: { type: 'x' },
      mountOptions: ['ro'],
      allowedTopologies: [{ matchLabelExpressions: [{ key: 'zone', values: ['a'] }] }],
    },
    cluster,
  ),
  { kind: Echo, content: { spec: { message: 'hello' } } },
  { kind: ScheduledEcho, content: { spec: { message: 'hello', schedule: '0 * * * *' } } },
  {
    kind: PodSet,
    content: {
      spec: { replicas: 0, template: { spec: { containers: [{ name: 'a', image: 'x:1', args: ['a'] }] } } },
    },
  },
  {
    kind: BookStore,
    content: {
      spec: {
        bookApp: {
          repository: 'app',
          replicas: 1,
          port: 80,
          targetPort: 3000,
          serviceType: 'ClusterIP',
          env: [{ name: 'A', value: '1' }],
        },
        bookDB: { repository: 'mongo', replicas: 1, port: 27017, dbSize: '2Gi' },
      },
    },
  },
  { kind: PostgresWriter, content: { spec: { table: 'students', name: 'Alice', age: 23, country: 'Spain' } } },
  { kind: Pet, content: { spec: { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } } },
];

/** The whole of a manifest. */
export type AnyManifest = Pick<KubeObject, 'metadata'> & object;
