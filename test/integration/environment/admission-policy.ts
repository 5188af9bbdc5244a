import type { Client } from '@echoperator/runtime';
import {
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  ValidatingWebhookConfiguration,
} from '@echoperator/runtime/kinds';
import { eventually } from '../../../testkit/eventually.ts';
import { freePorts } from '../../../testkit/free-ports.ts';

/** Which requests an unreachable webhook blocks in one namespace. */
export interface UnreachableWebhookOptions {
  readonly namespace: string;
  /** The group and the plural of the resource that cannot be created. Version v1. */
  readonly group: string;
  readonly resource: string;
  /** Sends a request that the API server asks the webhook about. */
  readonly trial: () => Promise<unknown>;
}

/**
 * Registers a required webhook (failurePolicy: Fail) whose server refuses connections, so that the API server rejects
 * creations. Returns when it does. The caller removes it.
 */
export async function blockWithUnreachableWebhook(
  client: Client,
  { namespace, group, resource, trial }: UnreachableWebhookOptions,
): Promise<{ readonly webhook: string; remove(): Promise<void> }> {
  const key = { name: `${namespace}-unreachable` };
  const webhook = 'unreachable.example.com';
  // Reserved, so no process listens on it.
  const [port] = await freePorts();
  await client.create(ValidatingWebhookConfiguration, {
    metadata: key,
    webhooks: [
      {
        name: webhook,
        clientConfig: { url: `https://127.0.0.1:${port}/validate` },
        failurePolicy: 'Fail',
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
        timeoutSeconds: 5,
        rules: [{ apiGroups: [group], apiVersions: ['v1'], operations: ['CREATE'], resources: [resource] }],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
      },
    ],
  });
  const remove = () => client.delete(ValidatingWebhookConfiguration, key);
  const isInForce = () => failsWith(trial, `failed calling webhook "${webhook}"`);
  return { webhook, ...(await whenInForce('the API server calls the webhook', isInForce, remove)) };
}

const failsWith = (trial: () => Promise<unknown>, message: string): Promise<boolean> =>
  trial().then(
    () => false,
    (error: unknown) => String(error).includes(message),
  );

/** Waits until a policy or a webhook is in force, and removes it if that fails. */
async function whenInForce(
  what: string,
  isInForce: () => Promise<boolean>,
  remove: () => Promise<unknown>,
): Promise<{ remove(): Promise<void> }> {
  try {
    await eventually(what, isInForce);
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    remove: async () => {
      await remove();
    },
  };
}

/** What a policy rewrites at each update in one namespace. */
export interface RewriteOptions {
  readonly namespace: string;
  /** The plural in the core group. */
  readonly resource: string;
  /** A CEL expression that returns a list of JSONPatch. */
  readonly patch: string;
  /** Updates an object and returns whether the policy rewrote it. */
  readonly isInForce: () => Promise<boolean>;
}

/**
 * Creates a policy that rewrites objects, like a mutating webhook, and returns when the API server enforces it. The
 * caller removes it.
 */
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
  return whenInForce('the policy rewrites', isInForce, remove);
}
