import type { Client } from '@echoperator/runtime';
import {
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  Namespace,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from '@echoperator/runtime/kinds';

const name = 'restricted-v2';
const rangeAnnotation = 'openshift.io/sa.scc.uid-range';
/** The range of user IDs and groups of each namespace. */
export const idRange = { first: 1_000_650_000, size: 10_000 } as const;

const range = `namespaceObject.metadata.annotations['${rangeAnnotation}'].split('/')`;
const variables = [
  { name: 'first', expression: `int(${range}[0])` },
  { name: 'end', expression: `int(${range}[0]) + int(${range}[1])` },
];
const matchConstraints = {
  resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
};
const matchResources = { namespaceSelector: { matchLabels: { scc: name } } };
const assigned = `Object{
  spec: Object.spec{
    securityContext: Object.spec.securityContext{
      fsGroup: object.spec.?securityContext.?fsGroup.orValue(variables.first)
    },
    containers: object.spec.containers.map(each, Object.spec.containers{
      name: each.name,
      securityContext: Object.spec.containers.securityContext{
        runAsUser: each.?securityContext.?runAsUser.orValue(
          object.spec.?securityContext.?runAsUser.orValue(variables.first))
      }
    })
  }
}`;
const isInRange = (id: string) => `${id} >= variables.first && ${id} < variables.end`;

/**
 * Makes the API server treat pods like OpenShift's security context constraint restricted-v2: it assigns a user ID and
 * an fsGroup of the namespace's range to a pod that has none, and refuses others. It does so a moment later.
 */
export async function enforceRestrictedV2(client: Client): Promise<void> {
  await client.create(MutatingAdmissionPolicy, {
    metadata: { name },
    spec: {
      matchConstraints,
      variables,
      mutations: [{ patchType: 'ApplyConfiguration', applyConfiguration: { expression: assigned } }],
      reinvocationPolicy: 'Never',
    },
  });
  await client.create(MutatingAdmissionPolicyBinding, {
    metadata: { name },
    spec: { policyName: name, matchResources },
  });
  await client.create(ValidatingAdmissionPolicy, {
    metadata: { name },
    spec: {
      matchConstraints,
      variables,
      validations: [
        {
          expression: isInRange('object.spec.?securityContext.?fsGroup.orValue(0)'),
          message: 'fsGroup is not in the range of the namespace',
        },
        {
          expression: `object.spec.containers.all(each, ${isInRange('each.?securityContext.?runAsUser.orValue(0)')})`,
          message: 'runAsUser is not in the range of the namespace',
        },
        {
          expression: `object.spec.containers.all(each,
            each.?securityContext.?allowPrivilegeEscalation.orValue(true) == false &&
            each.?securityContext.?capabilities.?drop.orValue([]).exists(capability, capability == 'ALL'))`,
          message: 'the container may gain privileges',
        },
      ],
    },
  });
  await client.create(ValidatingAdmissionPolicyBinding, {
    metadata: { name },
    spec: { policyName: name, validationActions: ['Deny'], matchResources },
  });
}

/** Gives the namespace its range. {@link enforceRestrictedV2} applies to it from now on. */
export async function assignRange(client: Client, namespace: string): Promise<void> {
  const annotations = { [rangeAnnotation]: `${idRange.first}/${idRange.size}` };
  const body = { metadata: { labels: { scc: name }, annotations } };
  await client.patch(Namespace, { name: namespace }, { type: 'merge', body });
}
