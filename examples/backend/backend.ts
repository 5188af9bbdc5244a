/**
 * An operator for workloads: each Backend has a Deployment and a ConfigMap with its files. A port of the Backend
 * controller of Demeter's workloads operator: docs/ported-operators.md.
 *
 *     node backend.ts crds     prints the CustomResourceDefinition
 *     node backend.ts role     prints its ClusterRole
 *     node backend.ts          runs
 */
import {
  child,
  customResourceDefinitions,
  defineController,
  defineKind,
  type ObjectOf,
  permissions,
  runOperator,
} from '@echoperator/runtime';
import { ConfigMap, Deployment } from '@echoperator/runtime/kinds';
import Type from 'typebox';

const text = (maxLength: number, description: string) => Type.String({ maxLength, description });
const replicas = { minimum: 0, maximum: 100 };

export const Backend = defineKind({
  group: 'demeter.run',
  version: 'v1alpha1',
  kind: 'Backend',
  plural: 'backends',
  shortNames: ['bnd'],
  description: 'Backend runs a container, with files and variables.',
  spec: Type.Object({
    image: text(255, 'The image of the container.'),
    replicas: Type.Integer({ ...replicas, description: 'The number of pods while it is enabled.' }),
    enabled: Type.Boolean({ description: 'Whether it has pods.' }),
    computeClass: text(63, 'The class of its resources: small or large. Others have little.'),
    command: Type.Optional(text(10_000, 'The command, separated by spaces.')),
    args: Type.Optional(text(10_000, 'The arguments, separated by spaces.')),
    annotations: Type.Optional(Type.Record(Type.String(), Type.String(), { maxProperties: 100 })),
    envVars: Type.With(
      Type.Array(Type.Object({ name: text(253, 'Its name.'), value: text(10_000, 'Its value.') }), { maxItems: 100 }),
      { default: [] },
    ),
    config: Type.With(
      Type.Array(Type.Object({ name: text(253, 'Its name.'), config: text(100_000, 'Its contents.') }), {
        maxItems: 100,
        description: 'The files in /etc/config.',
      }),
      { default: [] },
    ),
  }),
  status: Type.Object({
    runningStatus: text(20, 'paused, provisioning, degraded or running.'),
    availableReplicas: Type.Integer({ ...replicas, description: 'The pods that are available.' }),
    computeDCUPerMin: Type.Number({ description: 'What the pods cost per minute.' }),
    availableEnvVars: Type.Array(text(253, 'The name of a variable.'), { maxItems: 100 }),
    startTime: Type.Number({ description: 'When it was enabled, in milliseconds since 1970. 0: it is disabled.' }),
  }),
  printerColumns: [
    { name: 'Enabled', type: 'boolean', jsonPath: '.spec.enabled' },
    { name: 'Replicas', type: 'integer', jsonPath: '.spec.replicas' },
    { name: 'Status', type: 'string', jsonPath: '.status.runningStatus' },
  ],
});
type Backend = ObjectOf<typeof Backend>;

const sized = (requests: { cpu: string; memory: string }, limits: { cpu: string; memory: string }, dcu: number) => ({
  resources: { requests, limits },
  dcu,
});
const smallest = sized({ cpu: '100m', memory: '500Mi' }, { cpu: '1', memory: '500Mi' }, 0);
const computeClasses = new Map([
  ['small', sized({ cpu: '250m', memory: '1Gi' }, { cpu: '1', memory: '1Gi' }, 2)],
  ['large', sized({ cpu: '2', memory: '4Gi' }, { cpu: '4', memory: '4Gi' }, 16)],
]);
const classOf = ({ spec }: Backend) => computeClasses.get(spec.computeClass) ?? smallest;

const tolerations = [
  ['compute-profile', 'general-purpose'],
  ['compute-arch', 'x86'],
  ['availability-sla', 'best-effort'],
].map(([key, value = '']) => ({ effect: 'NoSchedule', key: `demeter.run/${key}`, operator: 'Equal', value }));

function childrenOf(backend: Backend) {
  const { metadata, spec } = backend;
  const configName = `${metadata.name}-config`;
  const labels = { 'demeter.run/version': 'v1alpha1', 'demeter.run/kind': 'Backend' };
  const selector = { 'demeter.run/instance': metadata.name };
  const main = {
    name: 'main',
    image: spec.image,
    imagePullPolicy: 'IfNotPresent',
    resources: classOf(backend).resources,
    volumeMounts: [{ name: 'config', mountPath: '/etc/config' }],
    command: spec.command?.split(' ') ?? [],
    args: spec.args?.split(' ') ?? [],
    env: [...spec.envVars],
  };
  const pod = {
    automountServiceAccountToken: false,
    tolerations,
    securityContext: { fsGroup: 1000 },
    containers: [main],
    volumes: [{ name: 'config', configMap: { name: configName } }],
  };
  return [
    child(ConfigMap, {
      metadata: { name: configName },
      data: Object.fromEntries(spec.config.map((file) => [file.name, file.config])),
    }),
    child(Deployment, {
      metadata: { labels, annotations: spec.annotations ?? {} },
      spec: {
        replicas: spec.enabled ? spec.replicas : 0,
        revisionHistoryLimit: 5,
        selector: { matchLabels: selector },
        template: { metadata: { labels: { ...labels, ...selector } }, spec: pod },
      },
    }),
  ] as const;
}

/** What a Backend is, by the status of its Deployment. */
function reasonOf({ spec, metadata, status = {} }: Deployment): 'Paused' | 'Provisioning' | 'Degraded' | 'Running' {
  const wanted = spec?.replicas ?? 0;
  if (wanted === 0) return 'Paused';
  const { availableReplicas = 0, updatedReplicas = 0, observedGeneration } = status;
  if (observedGeneration !== metadata.generation || updatedReplicas < wanted) return 'Provisioning';
  if (availableReplicas === 0) return 'Provisioning';
  return availableReplicas < wanted ? 'Degraded' : 'Running';
}

export const backends = defineController(Backend, {
  owns: [ConfigMap, Deployment],
  reasons: {
    Running: { ready: 'True', event: 'Normal', meaning: 'All pods are available.' },
    Degraded: { ready: 'False', event: 'Warning', meaning: 'Some pods are not available.' },
    Provisioning: { ready: 'False', event: 'Normal', meaning: 'No pod is available, or the pods are replaced.' },
    Paused: { ready: 'False', event: 'Normal', meaning: 'It shall have no pods.' },
  },
  reconcile: async (backend, { applyAll }) => {
    const { spec, status } = backend;
    const [, deployment] = await applyAll(childrenOf(backend));
    const reason = reasonOf(deployment);
    const availableReplicas = deployment.status?.availableReplicas ?? 0;
    return {
      reason,
      message: `${availableReplicas} of ${deployment.spec?.replicas ?? 0} pods are available`,
      status: {
        runningStatus: reason.toLowerCase(),
        availableReplicas,
        computeDCUPerMin: classOf(backend).dcu * availableReplicas,
        availableEnvVars: spec.envVars.map((variable) => variable.name),
        startTime: spec.enabled ? status?.startTime || Date.now() : 0,
      },
    };
  },
});

const name = 'backends';
const clusterRole = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name } };

// False when a test imports this file.
if (import.meta.main) {
  const [, , command] = process.argv;
  if (command === 'crds') for (const crd of customResourceDefinitions([backends])) console.log(JSON.stringify(crd));
  else if (command === 'role') console.log(JSON.stringify({ ...clusterRole, rules: permissions([backends]) }));
  else await runOperator(process, { name, controllers: [backends], leaderElection: name, port: 8080 });
}
