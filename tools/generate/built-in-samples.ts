/**
 * The objects whose defaults generate-built-in-defaults.ts records: each struct at least once without its optional
 * fields.
 */
import type { Kind, KubeObject } from '@echoperator/runtime';
import {
  ConfigMap,
  CronJob,
  Deployment,
  Event,
  Ingress,
  Job,
  Lease,
  Namespace,
  PersistentVolumeClaim,
  Pod,
  PodDisruptionBudget,
  ReplicaSet,
  Secret,
  Service,
  ServiceAccount,
  StatefulSet,
} from '@echoperator/runtime/kinds';

export interface BuiltInSample {
  readonly kind: Kind<KubeObject>;
  /** The object without its metadata. */
  readonly content: object;
}

const labels = { app: 'sample' };
const selector = { matchLabels: labels };
const metadata = { labels };
const selectors = { labelSelector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] } };
const podTerm = { topologyKey: 'zone', ...selectors, namespaceSelector: {} };
const nodeTerm = { matchExpressions: [{ key: 'zone', operator: 'Exists' }] };
const fieldRef = { fieldPath: 'metadata.name' };
const resourceFieldRef = { containerName: 'main', resource: 'limits.memory' };
const items = [{ key: 'a', path: 'a' }];
const claimSpec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };

const container = {
  name: 'main',
  image: 'main:1',
  env: [
    { name: 'FIELD', valueFrom: { fieldRef } },
    { name: 'RESOURCE', valueFrom: { resourceFieldRef } },
    { name: 'SETTING', valueFrom: { configMapKeyRef: { name: 'settings', key: 'a' } } },
    { name: 'SECRET', valueFrom: { secretKeyRef: { name: 'secret', key: 'a' } } },
  ],
  envFrom: [{ configMapRef: { name: 'settings' } }, { secretRef: { name: 'secret' } }],
  ports: [{ containerPort: 80 }],
  volumeMounts: [{ name: 'claim', mountPath: '/claim' }],
  volumeDevices: [{ name: 'ephemeral', devicePath: '/dev/ephemeral' }],
  resizePolicy: [{ resourceName: 'cpu', restartPolicy: 'NotRequired' }],
  livenessProbe: { httpGet: { port: 80, httpHeaders: [{ name: 'X', value: 'x' }, { name: 'Y' }] } },
  readinessProbe: { tcpSocket: { port: 80 } },
  startupProbe: { exec: { command: ['true'] } },
  lifecycle: { preStop: { sleep: { seconds: 1 } }, postStart: { httpGet: { port: 80 } } },
  securityContext: { capabilities: {}, seLinuxOptions: {}, seccompProfile: { type: 'RuntimeDefault' } },
};

const podSpec = {
  containers: [
    container,
    { name: 'least', image: 'least:1', livenessProbe: { grpc: { port: 80 } }, lifecycle: { preStop: { sleep: {} } } },
  ],
  initContainers: [{ name: 'init', image: 'init:1' }],
  securityContext: { sysctls: [{ name: 'kernel.shm_rmid_forced', value: '1' }, { name: 'net.ipv4.tcp_syncookies' }] },
  imagePullSecrets: [{ name: 'pull' }],
  hostAliases: [{ ip: '10.0.0.1', hostnames: ['alias'] }],
  dnsConfig: { options: [{ name: 'ndots' }] },
  tolerations: [{ operator: 'Exists' }],
  topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule', ...selectors }],
  affinity: {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [nodeTerm] },
      preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: nodeTerm }],
    },
    podAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [podTerm],
      preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, podAffinityTerm: podTerm }],
    },
    podAntiAffinity: {},
  },
  volumes: [
    { name: 'none' },
    { name: 'nothing-projected', projected: {} },
    { name: 'empty', emptyDir: {} },
    { name: 'settings', configMap: { name: 'settings', items } },
    { name: 'secret', secret: { secretName: 'secret' } },
    { name: 'host', hostPath: { path: '/host' } },
    { name: 'claim', persistentVolumeClaim: { claimName: 'claim' } },
    { name: 'nfs', nfs: { server: 'nfs', path: '/' } },
    { name: 'csi', csi: { driver: 'csi' } },
    { name: 'ephemeral', ephemeral: { volumeClaimTemplate: { spec: { ...claimSpec, volumeMode: 'Block' } } } },
    { name: 'ephemeral-files', ephemeral: { volumeClaimTemplate: { spec: claimSpec } } },
    {
      name: 'downward',
      downwardAPI: {
        items: [
          { path: 'a', fieldRef },
          { path: 'b', resourceFieldRef },
        ],
      },
    },
    {
      name: 'projected',
      projected: {
        sources: [
          { serviceAccountToken: { path: 'token' } },
          { configMap: { name: 'settings', items: [{ key: 'a', path: 'b' }] } },
          { secret: { name: 'secret' } },
          { downwardAPI: { items: [{ path: 'c', fieldRef }] } },
        ],
      },
    },
  ],
};

const template = { metadata, spec: podSpec };
const least = { containers: [{ name: 'least', image: 'least:1' }] };
const never = { ...least, restartPolicy: 'Never' };

export const builtInSamples: readonly BuiltInSample[] = [
  { kind: ConfigMap, content: { data: { a: '1' } } },
  { kind: Secret, content: { data: { a: 'AA==' } } },
  { kind: ServiceAccount, content: { imagePullSecrets: [{ name: 'pull' }], secrets: [{ name: 'token' }] } },
  { kind: Namespace, content: {} },
  { kind: Service, content: { spec: { selector: labels, ports: [{ port: 80 }] } } },
  { kind: Pod, content: { spec: least } },
  { kind: PersistentVolumeClaim, content: { spec: { ...claimSpec, selector: {} } } },
  { kind: Lease, content: {} },
  { kind: Lease, content: { spec: { holderIdentity: 'a', leaseDurationSeconds: 15 } } },
  { kind: PodDisruptionBudget, content: {} },
  { kind: PodDisruptionBudget, content: { spec: { maxUnavailable: 1, selector } } },
  { kind: Deployment, content: { spec: { selector, template } } },
  { kind: Deployment, content: { spec: { selector, template: { metadata, spec: least } } } },
  { kind: Deployment, content: { spec: { selector, template, strategy: { type: 'Recreate' } } } },
  { kind: Deployment, content: { spec: { selector, template, strategy: { rollingUpdate: {} } } } },
  { kind: ReplicaSet, content: { spec: { selector, template } } },
  { kind: StatefulSet, content: { spec: { selector, template, serviceName: 'sample' } } },
  {
    kind: StatefulSet,
    content: {
      spec: {
        selector,
        template,
        updateStrategy: { type: 'OnDelete' },
        persistentVolumeClaimRetentionPolicy: {},
        ordinals: {},
        volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claimSpec }],
      },
    },
  },
  {
    kind: StatefulSet,
    content: { spec: { selector, template, serviceName: 'sample', updateStrategy: { rollingUpdate: {} } } },
  },
  { kind: Job, content: { spec: { template: { metadata, spec: never } } } },
  { kind: CronJob, content: { spec: { schedule: '0 * * * *', jobTemplate: { spec: { template: { spec: never } } } } } },
  {
    kind: Event,
    content: {
      eventTime: '2026-01-01T00:00:00.000000Z',
      action: 'Sample',
      reason: 'Sample',
      type: 'Normal',
      reportingController: 'sample',
      reportingInstance: 'sample',
      regarding: { namespace: 'default' },
      series: { count: 2, lastObservedTime: '2026-01-01T00:00:00.000000Z' },
    },
  },
  {
    kind: Ingress,
    content: {
      spec: {
        tls: [{ hosts: ['a.example'] }],
        rules: [
          {
            host: 'a.example',
            http: {
              paths: [
                { path: '/', pathType: 'Prefix', backend: { service: { name: 'sample', port: { number: 80 } } } },
              ],
            },
          },
        ],
      },
    },
  },
];
