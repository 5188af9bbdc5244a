import { Buffer } from 'node:buffer';
import type { Kind } from '@echoperator/runtime';
import { compareQuantities } from '@echoperator/runtime/controller';
import { getMember, isObject, type JsonObject, schemaOf, versionedResource } from '@echoperator/runtime/internal';
import { BuiltInDecoder, type Complete, type Draft } from './built-in-decoding.ts';
import { builtInDefaults } from './built-in-defaults.ts';
import { admitPodSpec, completePods, podSpecCauses, podUpdateCauses, qosClassOf } from './built-in-pods.ts';
import {
  type Causes,
  dnsLabel,
  dnsSubdomain,
  forbidden,
  immutable,
  invalid,
  listOf,
  required,
  sameValue,
} from './built-in-refusals.ts';
import { allocateService, completeServices, serviceCauses, serviceUpdateCauses } from './built-in-services.ts';
import { invalid as invalidObject } from './field-error.ts';
import { badRequest, type FieldsV1, NotSimulatedError, type StoredObject, type Strategy } from './strategy.ts';

/** The rules of one built-in kind. Absent functions do nothing. */
interface Rules {
  /** The name of its struct in the tables. */
  readonly struct: string;
  readonly hasStatus?: true;
  readonly returnsDeleted?: true;
  /** What a write of the status does not change, in addition to the spec. */
  readonly statusResets?: FieldsV1;
  /** The members whose change increments the generation. Absent: the kind has no generation. */
  readonly generationOf?: readonly ('spec' | 'annotations')[];
  /** The form of its names. Default: {@link dnsSubdomain}. */
  readonly names?: RegExp;
  /** Completes a new object, which already has the defaults of its status. */
  readonly prepare?: (draft: Draft, object: StoredObject) => void;
  /** Completes a changed object, which has the status of the old object. */
  readonly prepareUpdate?: (draft: Draft, old: StoredObject) => void;
  /** The checks of new and changed objects. */
  readonly check?: (object: StoredObject) => Causes;
  /** The checks of changes. */
  readonly checkUpdate?: (object: StoredObject, old: StoredObject) => Causes;
  readonly deletionGraceSeconds?: Strategy['deletionGraceSeconds'];
}

const specOf = (object: StoredObject): JsonObject => (isObject(object.spec) ? object.spec : {});

/** Checks a kind with a selector and a template of pods that always restart. */
function checkWorkload({ spec }: StoredObject): Causes {
  const selector = getMember(spec, 'selector');
  const template = getMember(spec, 'template');
  const replicas = getMember(spec, 'replicas');
  const labels = getMember(getMember(template, 'metadata'), 'labels');
  const path = 'spec.template.metadata.labels';
  const isEmpty = isObject(selector) && Object.keys(selector).length === 0;
  const claims = listOf(getMember(spec, 'volumeClaimTemplates')).map((claim) =>
    getMember(getMember(claim, 'metadata'), 'name'),
  );
  return [
    ...(selector === undefined ? [required('spec.selector')] : []),
    ...(isEmpty ? [invalid('spec.selector', selector, 'empty selector is invalid')] : []),
    ...(selector !== undefined && !isEmpty && !isSelected(selector, labels)
      ? [invalid(path, labels, '`selector` does not match template `labels`')]
      : []),
    ...(Number(replicas) < 0 ? [invalid('spec.replicas', replicas, 'must be greater than or equal to 0')] : []),
    ...podSpecCauses(getMember(template, 'spec'), 'spec.template.spec', { policies: ['Always'], claims }),
  ];
}

/** @throws NotSimulatedError for a selector with expressions */
function isSelected(selector: unknown, labels: unknown): boolean {
  if (getMember(selector, 'matchExpressions') !== undefined) throw new NotSimulatedError('a selector with expressions');
  const wanted = getMember(selector, 'matchLabels');
  return Object.entries(isObject(wanted) ? wanted : {}).every(([key, value]) => getMember(labels, key) === value);
}

const jobPolicies = ['OnFailure', 'Never'];

/** @param path of the Job's spec */
function checkJobSpec(spec: unknown, path: string): Causes {
  const counts = ['parallelism', 'completions', 'activeDeadlineSeconds', 'backoffLimit', 'ttlSecondsAfterFinished'];
  const template = `${path}.template.spec`;
  const pod = getMember(getMember(spec, 'template'), 'spec');
  return [
    ...counts.flatMap((field) => {
      const count = getMember(spec, field);
      return Number(count ?? 0) < 0 ? [invalid(`${path}.${field}`, count, 'must be greater than or equal to 0')] : [];
    }),
    ...(getMember(pod, 'restartPolicy') === 'Always'
      ? [required(`${template}.restartPolicy`, 'valid values: "OnFailure", "Never"'), ...podSpecCauses(pod, template)]
      : podSpecCauses(pod, template, { policies: jobPolicies })),
  ];
}

const jobNameLabels = ['job-name', 'batch.kubernetes.io/job-name'];
const jobUidLabels = ['controller-uid', 'batch.kubernetes.io/controller-uid'];

/** Sets the selector of a Job, and the labels of its pods. */
function prepareJob(job: Draft, { metadata, spec }: StoredObject): void {
  if (!isObject(spec) || spec.manualSelector === true) return;
  const template = isObject(spec.template) ? spec.template : {};
  const { labels, ...rest } = isObject(template.metadata) ? template.metadata : {};
  const { name, uid = '' } = metadata;
  const all = {
    ...Object.fromEntries([
      ...jobNameLabels.map((label) => [label, name]),
      ...jobUidLabels.map((label) => [label, uid]),
    ]),
    ...(isObject(labels) && labels),
  };
  const selector = isObject(spec.selector) ? spec.selector : {};
  const matchLabels = { [String(jobUidLabels[1])]: uid, ...Object(selector.matchLabels) };
  job.spec = {
    ...spec,
    selector: { ...selector, matchLabels },
    template: { ...template, metadata: { ...rest, labels: all } },
  };
  // A Job without labels gets the labels of its template. As in the API server, it shares them since `complete`.
  if (metadata.labels === undefined || metadata.labels === labels) job.metadata = { ...metadata, labels: all };
}

function checkJob({ metadata, spec }: StoredObject): Causes {
  const labels = getMember(getMember(getMember(spec, 'template'), 'metadata'), 'labels');
  const selector = getMember(spec, 'selector');
  const wanted = getMember(spec, 'manualSelector') === true ? [] : [...jobNameLabels, ...jobUidLabels];
  const [wrong] = wanted.filter((label) => {
    const value = getMember(labels, label);
    return jobNameLabels.includes(label) ? value !== metadata.name : value !== metadata.uid;
  });
  const path = 'spec.template.metadata.labels';
  return [
    ...checkJobSpec(spec, 'spec'),
    ...(selector === undefined ? [required('spec.selector')] : []),
    ...(selector !== undefined && !isSelected(selector, labels)
      ? [invalid(path, labels, '`selector` does not match template `labels`')]
      : []),
    ...(metadata.name.length > 63 && wanted.length > 0
      ? [invalid('spec.template.labels', metadata.name, 'must be no more than 63 bytes')]
      : []),
    ...(wrong === undefined ? [] : [invalid(path, labels, `must have the value of the Job in ${wrong}`)]),
  ];
}

function checkJobUpdate(job: StoredObject, old: StoredObject): Causes {
  const [spec, oldSpec] = [specOf(job), specOf(old)];
  if (oldSpec.suspend === true && !sameValue(spec.template, oldSpec.template)) {
    throw new NotSimulatedError('a change of the template of a suspended Job');
  }
  if (spec.completionMode === 'Indexed' && !sameValue(spec.completions, oldSpec.completions)) {
    throw new NotSimulatedError('a change of the completions of an indexed Job');
  }
  return immutable(spec, oldSpec, ['completions', 'selector', 'template', 'completionMode', 'managedBy']);
}

/** The fields of a StatefulSet's spec that may change. */
const ofStatefulSet = [
  'replicas',
  'ordinals',
  'template',
  'updateStrategy',
  'revisionHistoryLimit',
  'persistentVolumeClaimRetentionPolicy',
  'minReadySeconds',
];

function checkStatefulSetUpdate(set: StoredObject, old: StoredObject): Causes {
  const fixed = (spec: JsonObject) => Object.entries(spec).filter(([field]) => !ofStatefulSet.includes(field));
  if (sameValue(Object.fromEntries(fixed(specOf(set))), Object.fromEntries(fixed(specOf(old))))) return [];
  const names = ofStatefulSet.map((field) => `'${field}'`);
  const text = `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
  return [forbidden('spec', `updates to statefulset spec for fields other than ${text} are forbidden`)];
}

const storageOf = (claim: StoredObject): unknown =>
  getMember(getMember(getMember(claim.spec, 'resources'), 'requests'), 'storage');

function checkClaim(claim: StoredObject): Causes {
  const modes = listOf(getMember(claim.spec, 'accessModes'));
  return [
    ...(modes.length === 0 ? [required('spec.accessModes', 'at least 1 access mode is required')] : []),
    ...(storageOf(claim) === undefined ? [required('spec.resources[storage]')] : []),
  ];
}

function checkClaimUpdate(claim: StoredObject, old: StoredObject): Causes {
  const isBound = getMember(claim.status, 'phase') === 'Bound';
  const fixed = (object: StoredObject) => {
    const { volumeName, volumeAttributesClassName, resources, storageClassName, ...rest } = specOf(object);
    const { storage: _, ...requests } = Object(getMember(resources, 'requests')) as JsonObject;
    return {
      ...rest,
      ...(specOf(old).volumeName !== undefined && { volumeName }),
      ...(specOf(old).storageClassName !== undefined && { storageClassName }),
      resources: isBound ? { ...Object(resources), requests } : resources,
      ...(!isBound && { volumeAttributesClassName }),
    };
  };
  const capacity = getMember(getMember(old.status, 'capacity'), 'storage');
  const [size, oldSize, used] = [storageOf(claim), storageOf(old), capacity].map((amount) => String(amount ?? '0')) as [
    string,
    string,
    string,
  ];
  const isTooSmall = compareQuantities(size, oldSize) < 0 && compareQuantities(size, used) <= 0;
  return [
    ...(sameValue(fixed(claim), fixed(old))
      ? []
      : [
          forbidden(
            'spec',
            'spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims',
          ),
        ]),
    ...(isTooSmall ? [forbidden('spec.resources.requests.storage', 'field can not be less than status.capacity')] : []),
  ];
}

const dataFields = ['data', 'binaryData'];
const dataKey = /^(?!\.\.?$)(?!\.\.)[-._a-zA-Z0-9]{1,253}$/;

const checkData = (object: StoredObject): Causes =>
  dataFields.flatMap((field) => {
    const data = object[field];
    return Object.keys(isObject(data) ? data : {})
      .filter((key) => !dataKey.test(key))
      .map((key) => invalid(`${field}[${key}]`, key, 'a valid config key must consist of alphanumeric characters'));
  });

function checkDataUpdate(object: StoredObject, old: StoredObject): Causes {
  if (old.immutable !== true) return [];
  return ['immutable', ...dataFields]
    .filter((field) => !sameValue(object[field], old[field]))
    .map((field) => forbidden(field, 'field is immutable when `immutable` is set'));
}

/** Refuses times without microseconds, as the API server does. */
const checkMicroTimes =
  (...fields: readonly string[]): Complete =>
  (draft) => {
    for (const value of fields.map((field) => draft[field])) {
      if (value === undefined || /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(String(value))) continue;
      if (/\.\d{6}[+-]/.test(String(value))) throw new NotSimulatedError('a time with a time zone');
      throw badRequest(`parsing time ${JSON.stringify(value)} as "2006-01-02T15:04:05.000000Z07:00"`);
    }
  };

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

const checkBase64 =
  (field: string): Complete =>
  (draft) => {
    const wrong = Object.values(Object(draft[field])).find((value) => !base64.test(String(value)));
    if (wrong !== undefined) throw badRequest(`${field}: illegal base64 data`);
  };

/** The defaults that depend on other fields, and the defaults of only one kind. */
const complete: Readonly<Record<string, Complete>> = {
  ...completePods,
  ...completeServices,
  'apps.v1.DeploymentStrategy': (strategy) => {
    if (strategy.type === 'RollingUpdate')
      strategy.rollingUpdate ??= decoder.decode({}, 'apps.v1.RollingUpdateDeployment');
  },
  'apps.v1.StatefulSetUpdateStrategy': (strategy, sent) => {
    if (sent.type === undefined)
      strategy.rollingUpdate ??= decoder.decode({}, 'apps.v1.RollingUpdateStatefulSetStrategy');
  },
  'batch.v1.Job': (job) => {
    const spec = isObject(job.spec) ? job.spec : {};
    const metadata = isObject(job.metadata) ? job.metadata : {};
    const labels = getMember(getMember(spec.template, 'metadata'), 'labels');
    if (labels !== undefined && Object.keys(Object(metadata.labels)).length === 0)
      job.metadata = { ...metadata, labels };
    const failurePolicy = spec.podFailurePolicy !== undefined;
    job.spec = {
      ...(spec.parallelism === undefined && { completions: 1 }),
      parallelism: 1,
      backoffLimit: spec.backoffLimitPerIndex === undefined ? 6 : 2_147_483_647,
      completionMode: 'NonIndexed',
      suspend: false,
      podReplacementPolicy: failurePolicy ? 'Failed' : 'TerminatingOrFailed',
      manualSelector: false,
      ...spec,
    };
  },
  'coordination.v1.LeaseSpec': checkMicroTimes('acquireTime', 'renewTime'),
  'events.v1.Event': checkMicroTimes('eventTime'),
  'events.v1.EventSeries': checkMicroTimes('lastObservedTime'),
  'core.v1.PersistentVolumeClaim': (claim) => {
    Object.assign(claim, { apiVersion: 'v1', kind: 'PersistentVolumeClaim' });
    claim.status = { phase: 'Pending', ...Object(claim.status) };
  },
  'core.v1.ConfigMap': checkBase64('binaryData'),
  'core.v1.Secret': (secret, sent) => {
    checkBase64('data')(secret, sent);
    const { stringData, ...rest } = secret;
    if (!isObject(stringData)) return;
    const texts = Object.entries(stringData).map(([key, text]) => [key, Buffer.from(String(text)).toString('base64')]);
    secret.data = { ...Object(rest.data), ...Object.fromEntries(texts) };
    delete secret.stringData;
  },
  'core.v1.Namespace': (namespace) => {
    const metadata = Object(namespace.metadata) as StoredObject['metadata'];
    if (metadata.name === undefined) return;
    const labels = { ...metadata.labels, 'kubernetes.io/metadata.name': metadata.name };
    namespace.metadata = { ...metadata, labels };
  },
};

const decoder = new BuiltInDecoder(complete);

const workload = { hasStatus: true, generationOf: ['spec'], check: checkWorkload } as const;
const selectorIsFixed = (object: StoredObject, old: StoredObject): Causes =>
  immutable(specOf(object), specOf(old), ['selector']);

/** By `group/version/plural`. */
const rules: Readonly<Record<string, Rules>> = {
  'apps/v1/deployments': {
    ...workload,
    struct: 'apps.v1.Deployment',
    generationOf: ['spec', 'annotations'],
    statusResets: { 'f:metadata': { 'f:labels': {} } },
    checkUpdate: selectorIsFixed,
  },
  'apps/v1/replicasets': { ...workload, struct: 'apps.v1.ReplicaSet', checkUpdate: selectorIsFixed },
  'apps/v1/statefulsets': {
    ...workload,
    struct: 'apps.v1.StatefulSet',
    names: dnsLabel,
    checkUpdate: checkStatefulSetUpdate,
  },
  'batch/v1/jobs': {
    struct: 'batch.v1.Job',
    hasStatus: true,
    generationOf: ['spec'],
    prepare: prepareJob,
    check: checkJob,
    checkUpdate: checkJobUpdate,
  },
  'batch/v1/cronjobs': {
    struct: 'batch.v1.CronJob',
    hasStatus: true,
    generationOf: ['spec'],
    check: ({ metadata, spec }) => [
      ...(getMember(spec, 'schedule') === undefined ? [required('spec.schedule')] : []),
      ...(metadata.name.length > 52
        ? [invalid('metadata.name', metadata.name, 'must be no more than 52 characters')]
        : []),
      ...checkJobSpec(getMember(getMember(spec, 'jobTemplate'), 'spec'), 'spec.jobTemplate.spec'),
    ],
  },
  'coordination.k8s.io/v1/leases': {
    struct: 'coordination.v1.Lease',
    check: ({ spec }) => {
      const seconds = getMember(spec, 'leaseDurationSeconds');
      return Number(seconds ?? 1) > 0 ? [] : [invalid('spec.leaseDurationSeconds', seconds, 'must be greater than 0')];
    },
  },
  'events.k8s.io/v1/events': { struct: 'events.v1.Event' },
  'networking.k8s.io/v1/ingresses': { struct: 'networking.v1.Ingress', hasStatus: true, generationOf: ['spec'] },
  'policy/v1/poddisruptionbudgets': {
    struct: 'policy.v1.PodDisruptionBudget',
    hasStatus: true,
    generationOf: ['spec'],
    names: /^/,
  },
  '/v1/configmaps': { struct: 'core.v1.ConfigMap', check: checkData, checkUpdate: checkDataUpdate },
  '/v1/secrets': {
    struct: 'core.v1.Secret',
    check: checkData,
    checkUpdate: (secret, old) => [
      ...(secret.type === old.type ? [] : [invalid('type', secret.type, 'field is immutable')]),
      ...checkDataUpdate(secret, old),
    ],
  },
  '/v1/serviceaccounts': { struct: 'core.v1.ServiceAccount', returnsDeleted: true },
  '/v1/namespaces': {
    struct: 'core.v1.Namespace',
    hasStatus: true,
    names: dnsLabel,
    prepare: (namespace) => {
      namespace.spec = { finalizers: ['kubernetes'] };
      namespace.status = { phase: 'Active' };
    },
    prepareUpdate: (namespace, old) => {
      namespace.spec = old.spec;
    },
  },
  '/v1/persistentvolumeclaims': {
    struct: 'core.v1.PersistentVolumeClaim',
    hasStatus: true,
    returnsDeleted: true,
    prepare: (claim, { metadata }) => {
      claim.status = { phase: 'Pending' };
      const finalizers = new Set([...(metadata.finalizers ?? []), 'kubernetes.io/pvc-protection']);
      claim.metadata = { ...metadata, finalizers: [...finalizers] };
    },
    check: checkClaim,
    checkUpdate: checkClaimUpdate,
  },
  '/v1/pods': {
    struct: 'core.v1.Pod',
    hasStatus: true,
    returnsDeleted: true,
    statusResets: { 'f:metadata': { 'f:deletionTimestamp': {}, 'f:ownerReferences': {} } },
    generationOf: ['spec'],
    prepare: (pod, object) => {
      pod.spec = admitPodSpec(specOf(object));
      pod.status = { phase: 'Pending', qosClass: qosClassOf(pod.spec) };
    },
    prepareUpdate: (pod) => {
      pod.spec = admitPodSpec(isObject(pod.spec) ? pod.spec : {});
    },
    check: ({ spec }) => podSpecCauses(spec, 'spec', { policies: ['Always', ...jobPolicies] }),
    checkUpdate: (pod, old) => podUpdateCauses(specOf(pod), specOf(old)),
    deletionGraceSeconds: ({ spec, status }, requested) => {
      const hasEnded = ['Failed', 'Succeeded'].includes(String(getMember(status, 'phase')));
      if (getMember(spec, 'nodeName') === undefined || hasEnded) return 0;
      const seconds = requested ?? Number(getMember(spec, 'terminationGracePeriodSeconds') ?? 0);
      return seconds < 0 ? 1 : seconds;
    },
  },
  '/v1/services': {
    struct: 'core.v1.Service',
    hasStatus: true,
    returnsDeleted: true,
    names: dnsLabel,
    prepare: (service, object) => {
      service.spec = allocateService(specOf(object), object.metadata.uid ?? '');
    },
    prepareUpdate: (service, old) => {
      const spec = isObject(service.spec) ? service.spec : {};
      service.spec = allocateService(spec, old.metadata.uid ?? '', specOf(old));
    },
    check: (service) => serviceCauses(specOf(service)),
    checkUpdate: (service, old) => serviceUpdateCauses(specOf(service), specOf(old)),
  },
};

/**
 * Returns the strategy of a built-in kind. Supported kinds: Deployments, ReplicaSets, StatefulSets, Jobs, CronJobs,
 * Leases, Events of events.k8s.io, Ingresses, PodDisruptionBudgets, ConfigMaps, Secrets, ServiceAccounts, Namespaces,
 * PersistentVolumeClaims, Pods and Services. Undefined for any other kind.
 *
 * The defaults are those of Kubernetes 1.36, with the admission plugins Priority, DefaultTolerationSeconds and
 * StorageObjectInUseProtection. Rare fields of pods, such as priority classes, and dual-stack Services may throw
 * {@link NotSimulatedError}.
 *
 * Differences from the API server:
 * - Of a spec only common mistakes are detected: names, containers, restart policies, selectors, ports and immutable
 *   fields. The code and reason of a refusal are the server's; its message may differ.
 * - A status is stored as sent, apart from unknown fields of its first level. It is not validated.
 * - The addresses and node ports of Services are derived from their uids, and may repeat.
 */
export function builtInStrategy(kind: Kind): Strategy | undefined {
  const found = rules[versionedResource(kind)];
  return found === undefined ? undefined : new BuiltInStrategy(kind, found);
}

class BuiltInStrategy implements Strategy {
  readonly kind: Kind;
  readonly schema: Strategy['schema'];
  readonly hasStatus: boolean;
  readonly requiresVersion: boolean;
  readonly returnsDeleted: boolean;
  readonly #rules: Rules;

  constructor(kind: Kind, kindRules: Rules) {
    this.kind = kind;
    this.schema = schemaOf(kind);
    this.hasStatus = kindRules.hasStatus === true;
    // AllowUnconditionalUpdate is false for these kinds.
    this.requiresVersion = kind.kind === 'Lease' || kind.kind === 'PodDisruptionBudget';
    this.returnsDeleted = kindRules.returnsDeleted === true;
    this.#rules = kindRules;
  }

  resetFields(subresource: 'status' | undefined): FieldsV1 {
    if (!this.hasStatus) return {};
    return subresource === undefined ? { 'f:status': {} } : { 'f:spec': {}, ...this.#rules.statusResets };
  }

  decode(object: StoredObject): StoredObject {
    const { struct } = this.#rules;
    // The API server's structs have a spec even if none is sent.
    const hasSpec = builtInDefaults[struct]?.others.split(' ').includes('spec') === true;
    return decoder.decode({ ...(hasSpec && { spec: {} }), ...object }, struct, ['metadata']) as StoredObject;
  }

  create(object: StoredObject): StoredObject {
    const { struct, prepare, generationOf, names = dnsSubdomain } = this.#rules;
    const draft: Draft = { ...object, ...(this.hasStatus && { status: decoder.decode({}, `${struct}Status`) }) };
    prepare?.(draft, object);
    const created = draft as StoredObject;
    const { metadata } = created;
    const stored = generationOf === undefined ? created : { ...created, metadata: { ...metadata, generation: 1 } };
    this.#refuse(
      stored,
      names.test(metadata.name) ? [] : [invalid('metadata.name', metadata.name, 'a lowercase RFC 1123 name')],
    );
    return stored;
  }

  update(object: StoredObject, old: StoredObject, subresource: 'status' | undefined): StoredObject {
    const { generation } = old.metadata;
    const { generation: _, ...metadata } = object.metadata;
    const kept = { ...metadata, ...(generation !== undefined && { generation }) };
    if (subresource === 'status') return this.#updateStatus({ ...object, metadata: kept }, old);
    const { prepareUpdate, generationOf = [], checkUpdate } = this.#rules;
    const draft: Draft = { ...object, metadata: kept, ...(this.hasStatus && { status: old.status }) };
    prepareUpdate?.(draft, old);
    const changed = draft as StoredObject;
    this.#refuse(changed, checkUpdate?.(changed, old) ?? []);
    const isNext = generationOf.some((part) =>
      part === 'spec'
        ? !sameValue(changed.spec, old.spec)
        : !sameValue(changed.metadata.annotations ?? {}, old.metadata.annotations ?? {}),
    );
    return isNext ? { ...changed, metadata: { ...kept, generation: (generation ?? 0) + 1 } } : changed;
  }

  deletionGraceSeconds(object: StoredObject, requested: number | undefined): number | undefined {
    return this.#rules.deletionGraceSeconds?.(object, requested);
  }

  #updateStatus(object: StoredObject, old: StoredObject): StoredObject {
    const { spec: _, ...rest } = object;
    const { ownerReferences, labels, ...metadata } = object.metadata;
    const isOf = (name: string): boolean => this.#rules.struct === name;
    const qosClass = isOf('core.v1.Pod') ? getMember(old.status, 'qosClass') : undefined;
    const kept = isOf('core.v1.Pod') ? old.metadata.ownerReferences : ownerReferences;
    const keptLabels = isOf('apps.v1.Deployment') ? old.metadata.labels : labels;
    return {
      ...rest,
      metadata: { ...metadata, ...(kept && { ownerReferences: kept }), ...(keptLabels && { labels: keptLabels }) },
      ...(old.spec !== undefined && { spec: old.spec }),
      ...(qosClass !== undefined && { status: { qosClass, ...Object(object.status) } }),
    };
  }

  #refuse(object: StoredObject, causes: Causes): void {
    const all = [...causes, ...(this.#rules.check?.(object) ?? [])];
    if (all.length > 0) throw invalidObject(this.kind, object.metadata.name, all);
  }
}
