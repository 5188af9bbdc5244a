import type { Client } from '../../../src/runtime/index.ts';
import {
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from '../../../src/runtime/kinds/index.ts';
import { eventually } from '../../../testkit/eventually.ts';

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
  await client.create(ValidatingAdmissionPolicy, {
    metadata: { name },
    spec: { matchConstraints: { resourceRules: [rule] }, validations: [{ expression, message }] },
  });
  await client.create(ValidatingAdmissionPolicyBinding, {
    metadata: { name },
    spec: {
      policyName: name,
      validationActions: ['Deny'],
      matchResources: { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } },
    },
  });
  const remove = async () => {
    await client.delete(ValidatingAdmissionPolicyBinding, { name });
    await client.delete(ValidatingAdmissionPolicy, { name });
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
  await client.create(MutatingAdmissionPolicy, {
    metadata: { name },
    spec: {
      matchConstraints: { resourceRules: [rule] },
      mutations: [{ patchType: 'JSONPatch', jsonPatch: { expression: patch } }],
      reinvocationPolicy: 'Never',
    },
  });
  await client.create(MutatingAdmissionPolicyBinding, {
    metadata: { name },
    spec: {
      policyName: name,
      matchResources: { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } },
    },
  });
  const remove = async () => {
    await client.delete(MutatingAdmissionPolicyBinding, { name });
    await client.delete(MutatingAdmissionPolicy, { name });
  };
  try {
    await eventually('the policy rewrites', isInForce);
  } catch (error) {
    await remove();
    throw error;
  }
  return { remove };
}
