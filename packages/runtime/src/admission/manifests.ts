import { needsConversion } from '../conversion/versions.ts';
import type { CustomKind } from '../kind/define-kind.ts';
import { resourceName } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import {
  defaultWebhookPort,
  secretNameOf,
  serviceNameOf,
  type WebhookSettings,
} from '../webhook-server/webhook-settings.ts';
import { admissionPath } from './admission-handlers.ts';
import type { AdmissionDefinition, DefinedAdmission } from './define-admission.ts';

/** Options of {@link webhookManifests}. Each text may be a placeholder of a template. */
export interface WebhookManifestOptions extends WebhookSettings {
  /** Default: none. */
  readonly admissions?: readonly DefinedAdmission[];
  /** The kinds of `webhooks`, whose versions are converted. Default: none. */
  readonly kinds?: readonly CustomKind[];
  /** The operator's namespace. Its objects never depend on the webhooks. */
  readonly namespace: string;
  /** The operator's service account, whose requests never depend on the webhooks. */
  readonly serviceAccount: string;
  /** The labels that select the operator's pods. */
  readonly podLabels: Readonly<Record<string, string>>;
  /** The Secret is provided by somebody else: no manifest and no right to write it. Default false. */
  readonly isSecretProvided?: boolean;
}

/** A manifest as it is written to a file. */
export interface GeneratedManifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [member: string]: unknown;
}

const admissionApi = 'admissionregistration.k8s.io/v1';

interface Condition {
  readonly name: string;
  readonly expression: string;
}

/** A finalizer can be removed from an object that no rule would allow today. */
const notDeleted: Condition = { name: 'not-being-deleted', expression: '!has(object.metadata.deletionTimestamp)' };

/** They remove owner references and finalizers when an owner, a namespace or a definition is deleted. */
const deletingUsers = ['generic-garbage-collector', 'namespace-controller'].map(
  (name) => `system:serviceaccount:kube-system:${name}`,
);

const ruleOf = ({ kind }: DefinedAdmission) => ({
  apiGroups: [kind.group],
  apiVersions: [kind.version],
  operations: ['CREATE', 'UPDATE'],
  // Without subresources: reports of a status never depend on a webhook.
  resources: [kind.plural],
  scope: kind.scope === 'Namespaced' ? 'Namespaced' : 'Cluster',
});

/**
 * Returns a ValidatingAdmissionPolicy and its binding for each kind with `rules`. The API server evaluates them itself,
 * so they need no webhook. They are generally available since Kubernetes 1.30.
 *
 * @param paramRef the object of `params`, by the resource name of the kind. Required for a kind with `paramKind`.
 * @throws TypeError if it is absent.
 */
export function validatingAdmissionPolicies(
  admissions: Iterable<DefinedAdmission>,
  paramRef: Readonly<Record<string, { readonly name: string; readonly namespace?: string }>> = {},
): readonly GeneratedManifest[] {
  return [...admissions].flatMap((admission) => {
    const { rules = [], paramKind, failurePolicy = 'Fail', matchConditions = [] } = admission.definition;
    if (rules.length === 0) return [];
    const name = resourceName(admission.kind);
    const parameters = paramRef[name];
    if (paramKind !== undefined && parameters === undefined)
      throw new TypeError(`the rules of ${name} read params: pass the name of their object in paramRef`);
    return [
      {
        apiVersion: admissionApi,
        kind: 'ValidatingAdmissionPolicy',
        metadata: { name },
        spec: {
          failurePolicy,
          ...(paramKind !== undefined && { paramKind }),
          matchConstraints: { matchPolicy: 'Equivalent', resourceRules: [ruleOf(admission)] },
          matchConditions: [notDeleted, ...matchConditions],
          validations: rules.map(({ rule, message, messageExpression }) => ({
            expression: rule,
            message,
            ...(messageExpression !== undefined && { messageExpression }),
            reason: 'Invalid',
          })),
        },
      },
      {
        apiVersion: admissionApi,
        kind: 'ValidatingAdmissionPolicyBinding',
        metadata: { name },
        spec: {
          policyName: name,
          validationActions: ['Deny'],
          ...(paramKind !== undefined && { paramRef: { ...parameters, parameterNotFoundAction: 'Deny' } }),
        },
      },
    ];
  });
}

/**
 * Returns the ValidatingWebhookConfiguration for the kinds with `validate`, undefined if there is none. It has no
 * `caBundle`: the operator's leader writes it.
 */
export const validatingWebhookConfiguration = (options: WebhookManifestOptions): GeneratedManifest | undefined =>
  configuration('validate', options);

/** Like {@link validatingWebhookConfiguration}, a MutatingWebhookConfiguration for the kinds with `defaults`. */
export const mutatingWebhookConfiguration = (options: WebhookManifestOptions): GeneratedManifest | undefined =>
  configuration('default', options);

function configuration(does: 'validate' | 'default', options: WebhookManifestOptions): GeneratedManifest | undefined {
  const hasFunction = ({ validate, defaults }: AdmissionDefinition<KubeObject>) =>
    (does === 'validate' ? validate : defaults) !== undefined;
  const admissions = (options.admissions ?? []).filter(({ definition }) => hasFunction(definition));
  if (admissions.length === 0) return undefined;
  return {
    apiVersion: admissionApi,
    kind: does === 'validate' ? 'ValidatingWebhookConfiguration' : 'MutatingWebhookConfiguration',
    metadata: { name: options.name },
    webhooks: admissions.map((admission) => webhookOf(does, admission, options)),
  };
}

function webhookOf(does: 'validate' | 'default', admission: DefinedAdmission, options: WebhookManifestOptions) {
  const { failurePolicy = 'Fail', timeoutSeconds = 5, matchConditions = [] } = admission.definition;
  const { namespace, serviceAccount } = options;
  const users = [`system:serviceaccount:${namespace}:${serviceAccount}`, ...deletingUsers];
  return {
    // At least three parts, also for a group such as `example.com`.
    name: `${does}.${resourceName(admission.kind)}`,
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    failurePolicy,
    timeoutSeconds,
    matchPolicy: 'Equivalent',
    clientConfig: {
      service: { name: serviceNameOf(options), namespace, path: admissionPath(does, admission), port: 443 },
    },
    rules: [ruleOf(admission)],
    namespaceSelector: {
      matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: [namespace] }],
    },
    matchConditions: [
      notDeleted,
      { name: 'not-the-operator', expression: `!(request.userInfo.username in ${JSON.stringify(users)})` },
      ...matchConditions,
    ],
  };
}

/** Returns the Service under whose name API servers call the webhooks. */
export const webhookService = (options: WebhookManifestOptions): GeneratedManifest => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: serviceNameOf(options), namespace: options.namespace },
  spec: {
    selector: options.podLabels,
    ports: [{ name: 'webhooks', port: 443, targetPort: options.port ?? defaultWebhookPort, protocol: 'TCP' }],
  },
});

/**
 * Returns the Secret, without data. The operator fills it, so a tool that restores a manifest must ignore its `data`. It
 * is a manifest because a right to `create` cannot be limited to a name.
 */
export const webhookSecret = (options: WebhookManifestOptions): GeneratedManifest => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: secretNameOf(options), namespace: options.namespace },
  type: 'Opaque',
});

/** An RBAC rule that is limited to objects of these names. */
export interface NamedPolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames: readonly string[];
  readonly verbs: readonly string[];
}

/**
 * Returns the rules that the operator needs for its webhooks: `role` in its namespace, `clusterRole` for the
 * configurations and the CustomResourceDefinitions of `kinds`. All of them name their objects.
 */
export function webhookPermissions(
  options: Omit<WebhookManifestOptions, 'podLabels' | 'namespace' | 'serviceAccount'>,
): {
  readonly role: readonly NamedPolicyRule[];
  readonly clusterRole: readonly NamedPolicyRule[];
} {
  const { admissions = [], kinds = [], isSecretProvided = false } = options;
  const read = ['get', 'list', 'watch'];
  const converted = kinds.filter(needsConversion);
  const has = (does: 'validate' | 'defaults') => admissions.some(({ definition }) => definition[does] !== undefined);
  const resources = [
    ...(has('validate') ? ['validatingwebhookconfigurations'] : []),
    ...(has('defaults') ? ['mutatingwebhookconfigurations'] : []),
  ];
  return {
    role: [
      {
        apiGroups: [''],
        resources: ['secrets'],
        resourceNames: [secretNameOf(options)],
        verbs: isSecretProvided ? read : [...read, 'patch'],
      },
    ],
    clusterRole: [
      ...resources.map((resource) => ({
        apiGroups: ['admissionregistration.k8s.io'],
        resources: [resource],
        resourceNames: [options.name],
        verbs: [...read, 'patch'],
      })),
      ...(converted.length === 0
        ? []
        : [
            {
              apiGroups: ['apiextensions.k8s.io'],
              resources: ['customresourcedefinitions'],
              resourceNames: converted.map(resourceName),
              verbs: [...read, 'patch'],
            },
          ]),
    ],
  };
}

/**
 * Returns all manifests of the webhooks except RBAC (see {@link webhookPermissions}) and CustomResourceDefinitions (see
 * `customResourceDefinition`, whose `conversionService` is the Service of these manifests).
 */
export function webhookManifests(options: WebhookManifestOptions): readonly GeneratedManifest[] {
  const configurations = [mutatingWebhookConfiguration(options), validatingWebhookConfiguration(options)];
  const present = configurations.filter((each) => each !== undefined);
  if (present.length === 0 && !(options.kinds ?? []).some(needsConversion)) return [];
  return [...(options.isSecretProvided ? [] : [webhookSecret(options)]), webhookService(options), ...present];
}
