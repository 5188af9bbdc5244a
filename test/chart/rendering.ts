import type {
  V1ClusterRole,
  V1ClusterRoleBinding,
  V1ConfigMap,
  V1Deployment,
  V1Job,
  V1NetworkPolicy,
  V1ObjectMeta,
  V1Pod,
  V1PodDisruptionBudget,
  V1PodSpec,
  V1Role,
  V1RoleBinding,
  V1Service,
  V1ServiceAccount,
  V1StatefulSet,
} from '@kubernetes/client-node';
import { parseAllDocuments } from 'yaml';

/** A kind for which no dependency has types. */
export interface ServiceMonitor {
  readonly metadata: V1ObjectMeta;
  readonly spec: {
    readonly namespaceSelector: { readonly matchNames: readonly string[] };
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly endpoints: readonly { readonly port: string; readonly path: string; readonly interval: string }[];
  };
}

interface PodMonitor {
  readonly metadata: V1ObjectMeta;
  readonly spec: Omit<ServiceMonitor['spec'], 'endpoints'> & {
    readonly podMetricsEndpoints: ServiceMonitor['spec']['endpoints'];
  };
}

/** An alert of a {@link PrometheusRule}. */
export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

interface PrometheusRule {
  readonly metadata: V1ObjectMeta;
  readonly spec: { readonly groups: readonly { readonly name: string; readonly rules: readonly AlertRule[] }[] };
}

/** A kind of cert-manager. */
interface Certificate {
  readonly metadata: V1ObjectMeta;
  readonly spec: { readonly secretName: string; readonly dnsNames: readonly string[]; readonly issuerRef: object };
}

/** Every kind that the chart may render. */
export interface Kinds {
  Certificate: Certificate;
  ClusterRole: V1ClusterRole;
  ClusterRoleBinding: V1ClusterRoleBinding;
  ConfigMap: V1ConfigMap;
  Deployment: V1Deployment;
  Job: V1Job;
  NetworkPolicy: V1NetworkPolicy;
  Pod: V1Pod;
  PodDisruptionBudget: V1PodDisruptionBudget;
  PodMonitor: PodMonitor;
  PrometheusRule: PrometheusRule;
  Role: V1Role;
  RoleBinding: V1RoleBinding;
  Service: V1Service;
  ServiceAccount: V1ServiceAccount;
  ServiceMonitor: ServiceMonitor;
  StatefulSet: V1StatefulSet;
}

export type Manifest = { readonly [K in keyof Kinds]: { readonly kind: K } & Kinds[K] }[keyof Kinds];

/** The manifests that Helm rendered. */
export class Rendering {
  readonly manifests: readonly Manifest[];

  /** @throws YAMLParseError if the text is not valid YAML, or has a duplicate key */
  constructor(text: string) {
    const documents = parseAllDocuments(text);
    for (const { errors } of documents) if (errors[0] !== undefined) throw errors[0];
    this.manifests = documents
      .map((document) => document.toJSON() as Manifest | null)
      .filter((found) => found !== null);
  }

  all<K extends keyof Kinds>(kind: K): readonly Kinds[K][] {
    return this.manifests.filter((manifest) => manifest.kind === kind) as readonly Manifest[] as readonly Kinds[K][];
  }

  /** @throws RangeError unless there is exactly one manifest of the kind, and of the name if given */
  one<K extends keyof Kinds>(kind: K, name?: string): Kinds[K] {
    const found = this.all(kind).filter(({ metadata }) => name === undefined || metadata?.name === name);
    if (found.length === 1 && found[0] !== undefined) return found[0];
    throw new RangeError(`${found.length} of ${kind} ${name ?? ''} among ${this.names().join(', ')}`);
  }

  /** `kind/name` of all manifests, sorted. */
  names(): readonly string[] {
    return this.manifests.map(({ kind, metadata }) => `${kind}/${metadata?.name}`).sort();
  }

  /** The specs of all pods, by their manifest: `Job/demo-echoperator-crds`. */
  podSpecs(): ReadonlyMap<string, V1PodSpec> {
    return new Map(
      this.manifests.flatMap((manifest): [string, V1PodSpec][] => {
        const spec = podSpecOf(manifest);
        return spec === undefined ? [] : [[`${manifest.kind}/${manifest.metadata?.name}`, spec]];
      }),
    );
  }
}

function podSpecOf(manifest: Manifest): V1PodSpec | undefined {
  switch (manifest.kind) {
    case 'Pod':
      return manifest.spec;
    case 'Deployment':
    case 'Job':
    case 'StatefulSet':
      return manifest.spec?.template.spec;
    default:
      return undefined;
  }
}
