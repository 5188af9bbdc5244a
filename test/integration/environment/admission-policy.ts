import type {
  V1MutatingAdmissionPolicy,
  V1MutatingAdmissionPolicyBinding,
  V1ValidatingAdmissionPolicy,
  V1ValidatingAdmissionPolicyBinding,
} from '@kubernetes/client-node';
import { builtInKind, type Client } from '../../../src/runtime/index.ts';
import { eventually } from '../../../testkit/eventually.ts';

const admission = { group: 'admissionregistration.k8s.io', version: 'v1', scope: 'Cluster' } as const;
const Policy = builtInKind<V1ValidatingAdmissionPolicy>({
  ...admission,
  kind: 'ValidatingAdmissionPolicy',
  plural: 'validatingadmissionpolicies',
});
const Binding = builtInKind<V1ValidatingAdmissionPolicyBinding>({
  ...admission,
  kind: 'ValidatingAdmissionPolicyBinding',
  plural: 'validatingadmissionpolicybindings',
});

/** What a policy of a test's own namespace refuses. */
export interface PolicyOptions {
  readonly namespace: string;
  readonly operation: 'CREATE' | 'DELETE';
  readonly resource: string;
  /** The group of the resource. Default: apps. */
  readonly group?: string;
  /** What must hold, in CEL. */
  readonly expression: string;
  readonly message: string;
  /** Tries what is forbidden. */
  readonly trial: () => Promise<unknown>;
}

/** Has the API server refuse what a policy forbids; returns when it does. Whoever asked removes it. */
export async function forbid(client: Client, options: PolicyOptions): Promise<{ remove(): Promise<void> }> {
  const { namespace, operation, resource, group = 'apps', expression, message, trial } = options;
  const name = `${namespace}-${operation.toLowerCase()}`;
  const rule = { apiGroups: [group], apiVersions: ['v1'], operations: [operation], resources: [resource] };
  await client.create(Policy, {
    metadata: { name },
    spec: { matchConstraints: { resourceRules: [rule] }, validations: [{ expression, message }] },
  });
  await client.create(Binding, {
    metadata: { name },
    spec: {
      policyName: name,
      validationActions: ['Deny'],
      matchResources: { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } },
    },
  });
  const remove = async () => {
    await client.delete(Binding, { name });
    await client.delete(Policy, { name });
  };
  const isInForce = () =>
    trial().then(
      () => false,
      (error: unknown) => String(error).includes(message),
    );
  try {
    await eventually(`the policy is in force: ${message}`, isInForce);
  } catch (error) {
    await remove();
    throw error;
  }
  return { remove };
}

const MutatingPolicy = builtInKind<V1MutatingAdmissionPolicy>({
  ...admission,
  kind: 'MutatingAdmissionPolicy',
  plural: 'mutatingadmissionpolicies',
});
const MutatingBinding = builtInKind<V1MutatingAdmissionPolicyBinding>({
  ...admission,
  kind: 'MutatingAdmissionPolicyBinding',
  plural: 'mutatingadmissionpolicybindings',
});

/** What a policy rewrites at each update in a test's own namespace. */
export interface RewriteOptions {
  readonly namespace: string;
  /** The plural in the core group. */
  readonly resource: string;
  /** A list of JSONPatch, in CEL. */
  readonly patch: string;
  /** Updates an object, and tells whether it was rewritten. */
  readonly isInForce: () => Promise<boolean>;
}

/** Has the API server rewrite objects, as a mutating webhook would; returns when it does. The caller removes it. */
export async function rewrite(client: Client, options: RewriteOptions): Promise<{ remove(): Promise<void> }> {
  const { namespace, resource, patch, isInForce } = options;
  const name = `${namespace}-rewrite`;
  const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: [resource] };
  await client.create(MutatingPolicy, {
    metadata: { name },
    spec: {
      matchConstraints: { resourceRules: [rule] },
      mutations: [{ patchType: 'JSONPatch', jsonPatch: { expression: patch } }],
      reinvocationPolicy: 'Never',
    },
  });
  await client.create(MutatingBinding, {
    metadata: { name },
    spec: {
      policyName: name,
      matchResources: { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } },
    },
  });
  const remove = async () => {
    await client.delete(MutatingBinding, { name });
    await client.delete(MutatingPolicy, { name });
  };
  try {
    await eventually('the policy rewrites', isInForce);
  } catch (error) {
    await remove();
    throw error;
  }
  return { remove };
}
