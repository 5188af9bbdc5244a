import type { Kind } from '@echoperator/runtime';
import {
  ClusterRole,
  ClusterRoleBinding,
  ConfigMap,
  CronJob,
  DaemonSet,
  Deployment,
  EndpointSlice,
  HorizontalPodAutoscaler,
  Ingress,
  Job,
  Lease,
  LimitRange,
  Namespace,
  NetworkPolicy,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  PodDisruptionBudget,
  PriorityClass,
  ReplicaSet,
  ResourceQuota,
  Role,
  RoleBinding,
  Secret,
  Service,
  ServiceAccount,
  StatefulSet,
  StorageClass,
} from '@echoperator/runtime/kinds';
import { controllerNames } from '../../../src/kinds.ts';
import { controllers } from '../../../src/operator.ts';
import { kindPlans } from '../../plans/index.ts';

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

const rbac = 'rbac.authorization.k8s.io';

/** Each kind of the table of built-in types, then each of ours. */
export const childExamples: readonly ChildExample[] = [
  { kind: DaemonSet, content: { spec: { selector: workload.selector, template } } },
  { kind: Deployment, content: { spec: workload } },
  { kind: ReplicaSet, content: { spec: workload } },
  {
    kind: StatefulSet,
    content: {
      spec: { ...workload, serviceName: 'shop', volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claim }] },
    },
  },
  {
    kind: HorizontalPodAutoscaler,
    content: {
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'shop' },
        maxReplicas: 3,
        metrics: [
          { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
        ],
        behavior: { scaleDown: { policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }] } },
      },
    },
  },
  {
    kind: CronJob,
    content: {
      spec: { schedule: '0 * * * *', suspend: true, jobTemplate: { spec: { template: never } } },
    },
  },
  { kind: Job, content: { spec: { suspend: true, template: never } } },
  { kind: Lease, content: { spec: { holderIdentity: 'a', leaseDurationSeconds: 15 } } },
  { kind: ConfigMap, content: { data: { a: '1', empty: '' }, binaryData: { b: 'AA==' } } },
  {
    kind: LimitRange,
    content: { spec: { limits: [{ type: 'Container', default: { cpu: '1' }, max: { cpu: '2' } }] } },
    limitsPods: true,
  },
  { kind: Namespace, content: {} },
  {
    kind: PersistentVolume,
    content: {
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
  },
  // Of the class for which no volume is played: binding one would change the claim under the test's hands.
  { kind: PersistentVolumeClaim, content: { spec: { ...claim, storageClassName: 'without-volumes' } } },
  // A token's volume would need a service account.
  { kind: Pod, content: { spec: { ...never.spec, volumes: [{ name: 'scratch', emptyDir: {} }] } } },
  {
    kind: ResourceQuota,
    content: {
      spec: {
        hard: { pods: '100' },
        scopeSelector: { matchExpressions: [{ scopeName: 'PriorityClass', operator: 'In', values: ['high'] }] },
      },
    },
    limitsPods: true,
  },
  { kind: Secret, content: { stringData: { a: '1' }, data: { b: 'AA==' } } },
  {
    kind: Service,
    content: {
      spec: {
        selector: labels,
        ports: [
          { name: 'web', port: 80 },
          { name: 'dns', port: 53, protocol: 'UDP' },
        ],
      },
    },
  },
  { kind: ServiceAccount, content: { imagePullSecrets: [{ name: 'pull' }], secrets: [{ name: 'keys' }] } },
  {
    kind: EndpointSlice,
    content: {
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.1.0.1'], conditions: { ready: true }, hints: { forZones: [{ name: 'a' }] } }],
      ports: [{ name: 'web', port: 80 }],
    },
  },
  {
    kind: Ingress,
    content: {
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
    },
  },
  {
    kind: NetworkPolicy,
    content: {
      spec: {
        podSelector: {},
        ingress: [{ from: [{ podSelector: {} }, { ipBlock: { cidr: '10.0.0.0/8' } }], ports: [{ port: 80 }] }],
      },
    },
  },
  { kind: PodDisruptionBudget, content: { spec: { maxUnavailable: 1, selector: {} } } },
  {
    kind: ClusterRole,
    content: {
      rules: [
        { apiGroups: [''], resources: ['pods'], verbs: ['get'] },
        { nonResourceURLs: ['/x'], verbs: ['get'] },
      ],
    },
  },
  {
    kind: ClusterRoleBinding,
    content: {
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'none-such' },
      subjects: [
        { kind: 'ServiceAccount', name: 'a', namespace: 'b' },
        { kind: 'User', name: 'u' },
      ],
    },
  },
  { kind: Role, content: { rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'list'] }] } },
  {
    kind: RoleBinding,
    content: {
      roleRef: { apiGroup: rbac, kind: 'Role', name: 'none-such' },
      subjects: [
        { kind: 'ServiceAccount', name: 'a' },
        { kind: 'Group', name: 'g' },
      ],
    },
  },
  { kind: PriorityClass, content: { value: 5, description: 'Low.' } },
  {
    kind: StorageClass,
    content: {
      provisioner: 'none.example',
      parameters: { type: 'x' },
      mountOptions: ['ro'],
      allowedTopologies: [{ matchLabelExpressions: [{ key: 'zone', values: ['a'] }] }],
    },
  },
  ...controllerNames.map((name) => ({ kind: controllers[name].kind, content: { spec: kindPlans[name].example } })),
];
