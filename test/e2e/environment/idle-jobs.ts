import { eventually } from '../../../testkit/eventually.ts';
import { type E2eCluster, listOf } from './cluster.ts';

/** Labels for a namespace whose Jobs get no pods. */
export const idleJobsLabels = { 'jobs.echoperator.test/idle': 'true' } as const;

const name = 'idle-jobs';
const nobody = 'jobs.echoperator.test/nobody';
const policyGroup = 'admissionregistration.k8s.io/v1';

/** The Job controller ignores a Job that another controller manages. */
const policy = {
  apiVersion: policyGroup,
  kind: 'MutatingAdmissionPolicy',
  metadata: { name },
  spec: {
    matchConstraints: {
      namespaceSelector: { matchLabels: idleJobsLabels },
      resourceRules: [{ apiGroups: ['batch'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['jobs'] }],
    },
    reinvocationPolicy: 'Never',
    mutations: [
      {
        patchType: 'ApplyConfiguration',
        applyConfiguration: { expression: `Object{spec: Object.spec{managedBy: "${nobody}"}}` },
      },
    ],
  },
};

const binding = {
  apiVersion: policyGroup,
  kind: 'MutatingAdmissionPolicyBinding',
  metadata: { name },
  spec: { policyName: name },
};

/** Prevents pods of Jobs in namespaces with {@link idleJobsLabels}. Returns when the API server enforces it. */
export async function keepJobsIdle(cluster: E2eCluster): Promise<void> {
  await cluster.apply(listOf([policy, binding]));
  const namespace = await cluster.namespace(idleJobsLabels);
  const create = ['create', 'job', 'trial', '--image=busybox:1.36', '--dry-run=server', '--output=json'];
  await eventually('a Job gets no pods', async () =>
    (await cluster.kubectl([...create, '--namespace', namespace])).includes(nobody),
  );
  await cluster.deleteNamespace(namespace);
}
