/** What the API server computes and checks in the pods and pod templates of built-in kinds. */

import { compareQuantities } from '@echoperator/runtime/controller';
import { getMember, isObject, type JsonObject } from '@echoperator/runtime/internal';
import type { Complete } from './built-in-decoding.ts';
import {
  type Causes,
  dnsLabel,
  forbidden,
  invalid,
  listOf,
  required,
  sameValue,
  unsupported,
} from './built-in-refusals.ts';
import { fieldValueError } from './field-error.ts';
import { NotSimulatedError } from './strategy.ts';

/** Matches `registry:5000/name:tag@digest`. Other texts are not image names (github.com/distribution/reference). */
const imageName =
  /^(?:[a-zA-Z0-9.-]+(?::\d+)?\/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*(?::(?<tag>\w[\w.-]{0,127}))?(?<digest>@[\w+.-]+:[0-9a-fA-F]{32,})?$/;

/**
 * The defaults of containers, volumes and pod specs that depend on their other fields
 * (k8s.io/kubernetes/pkg/apis/core/v1/defaults.go).
 */
export const completePods: Readonly<Record<string, Complete>> = {
  'core.v1.Container': (container) => {
    const { tag, digest } = imageName.exec(String(container.image ?? ''))?.groups ?? { tag: '' };
    const isLatest = tag === 'latest' || (tag === undefined && digest === undefined);
    container.imagePullPolicy ??= isLatest ? 'Always' : 'IfNotPresent';
  },
  'core.v1.Volume': (volume) => {
    if (Object.keys(volume).every((field) => field === 'name')) volume.emptyDir = {};
  },
  'core.v1.PodSpec': (spec) => {
    const name = spec.serviceAccountName ?? spec.serviceAccount;
    if (name !== undefined) Object.assign(spec, { serviceAccountName: name, serviceAccount: name });
  },
  'core.v1.Pod': (pod) => {
    if (!isObject(pod.spec)) return;
    const { enableServiceLinks = true, hostNetwork, resources } = pod.spec;
    if (resources !== undefined) throw new NotSimulatedError('spec.resources of a Pod');
    const spec: Record<string, unknown> = { ...pod.spec, enableServiceLinks };
    for (const member of ['containers', 'initContainers']) {
      if (Array.isArray(spec[member]))
        spec[member] = spec[member].map((one) => podContainer(one, hostNetwork === true));
    }
    pod.spec = spec;
  },
};

/** Adds defaults to a container of a Pod. A template's containers do not get these defaults. */
function podContainer(container: JsonObject, isHostNetwork: boolean): JsonObject {
  const { limits, ...rest } = isObject(container.resources) ? container.resources : {};
  return {
    ...container,
    ...(isObject(limits) && {
      resources: { ...rest, limits, requests: { ...limits, ...(isObject(rest.requests) && rest.requests) } },
    }),
    ...(isHostNetwork &&
      Array.isArray(container.ports) && {
        ports: container.ports.map((port: JsonObject) => ({ ...port, hostPort: port.hostPort ?? port.containerPort })),
      }),
  };
}

const containersOf = (spec: unknown): readonly unknown[] => [
  ...listOf(getMember(spec, 'initContainers')),
  ...listOf(getMember(spec, 'containers')),
];

/** Returns the quality of service class (k8s.io/kubernetes/pkg/apis/core/helper/qos). */
export function qosClassOf(spec: unknown): 'BestEffort' | 'Burstable' | 'Guaranteed' {
  const amounts = containersOf(spec).flatMap((container) =>
    ['cpu', 'memory'].map((resource) =>
      ['requests', 'limits'].map(
        (side) => getMember(getMember(getMember(container, 'resources'), side), resource) ?? '0',
      ),
    ),
  );
  if (amounts.flat().every((amount) => amount === '0')) return 'BestEffort';
  const isGuaranteed = amounts.every(([request, limit]) => limit !== '0' && request === limit);
  return isGuaranteed ? 'Guaranteed' : 'Burstable';
}

/** What the API server's admission plugins Priority and DefaultTolerationSeconds set in a Pod's spec. */
export function admitPodSpec(spec: JsonObject): JsonObject {
  if (spec.priorityClassName !== undefined) throw new NotSimulatedError('spec.priorityClassName of a Pod');
  if (spec.schedulingGates !== undefined) throw new NotSimulatedError('spec.schedulingGates of a Pod');
  const given = listOf(spec.tolerations);
  const added = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'].filter(
    (taint) =>
      !given.some(
        (toleration) =>
          [undefined, taint].includes(getMember(toleration, 'key') as string) &&
          [undefined, 'NoExecute'].includes(getMember(toleration, 'effect') as string),
      ),
  );
  const tolerations = [
    ...given,
    ...added.map((key) => ({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 })),
  ];
  return {
    priority: 0,
    preemptionPolicy: 'PreemptLowerPriority',
    ...spec,
    ...(tolerations.length > 0 && { tolerations }),
  };
}

/**
 * Checks a pod spec for common mistakes. The API server has many more checks.
 *
 * @param policies the allowed restart policies. Default: any.
 * @param claims the names of the claims that a StatefulSet adds to the volumes
 */
export function podSpecCauses(
  spec: unknown,
  path: string,
  { policies, claims = [] }: { readonly policies?: readonly string[]; readonly claims?: readonly unknown[] } = {},
): Causes {
  const containers = listOf(getMember(spec, 'containers'));
  const policy = getMember(spec, 'restartPolicy');
  const names = containersOf(spec).map((container) => getMember(container, 'name'));
  const volumes = listOf(getMember(spec, 'volumes')).map((volume) => getMember(volume, 'name'));
  return [
    ...(containers.length === 0 ? [required(`${path}.containers`)] : []),
    ...volumes.flatMap((name, index) =>
      nameCauses(name, `${path}.volumes[${index}].name`, volumes.indexOf(name) < index),
    ),
    ...['initContainers', 'containers'].flatMap((member) =>
      listOf(getMember(spec, member)).flatMap((container, index) => {
        const isDuplicate =
          names.indexOf(getMember(container, 'name')) !== names.lastIndexOf(getMember(container, 'name'));
        return containerCauses(container, `${path}.${member}[${index}]`, [...volumes, ...claims], isDuplicate);
      }),
    ),
    ...(policies !== undefined && !policies.includes(String(policy))
      ? [unsupported(`${path}.restartPolicy`, policy, policies)]
      : []),
  ];
}

const nameCauses = (name: unknown, path: string, isDuplicate: boolean): Causes => {
  if (name === undefined || name === '') return [required(path)];
  if (!dnsLabel.test(String(name)))
    return [
      invalid(path, name, 'a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "-"'),
    ];
  return isDuplicate ? [fieldValueError('FieldValueDuplicate', path, name)] : [];
};

function containerCauses(container: unknown, path: string, volumes: readonly unknown[], isDuplicate: boolean): Causes {
  const { name, image, resources, env, ports, volumeMounts } = isObject(container) ? container : {};
  const limits = getMember(resources, 'limits');
  const requests = getMember(resources, 'requests');
  const tooMuch = Object.keys(isObject(requests) ? requests : {}).filter((resource) => {
    const [request, limit] = [getMember(requests, resource), getMember(limits, resource)];
    return limit !== undefined && compareQuantities(String(request), String(limit)) > 0;
  });
  return [
    ...nameCauses(name, `${path}.name`, isDuplicate),
    ...(image === undefined || image === '' ? [required(`${path}.image`)] : []),
    ...listOf(env).flatMap((one, index) =>
      String(getMember(one, 'name') ?? '') === '' ? [required(`${path}.env[${index}].name`)] : [],
    ),
    ...listOf(ports).flatMap((port, index) =>
      portCauses(getMember(port, 'containerPort'), `${path}.ports[${index}].containerPort`),
    ),
    ...listOf(volumeMounts).flatMap((mount, index) => {
      const volume = getMember(mount, 'name');
      const field = `${path}.volumeMounts[${index}]`;
      return [
        ...(volumes.includes(volume) ? [] : [fieldValueError('FieldValueNotFound', `${field}.name`, volume)]),
        ...(String(getMember(mount, 'mountPath') ?? '') === '' ? [required(`${field}.mountPath`)] : []),
      ];
    }),
    ...tooMuch.map((resource) =>
      invalid(
        `${path}.resources.requests`,
        getMember(requests, resource),
        `must be less than or equal to ${resource} limit of ${getMember(limits, resource)}`,
      ),
    ),
  ];
}

export const portCauses = (port: unknown, path: string): Causes =>
  typeof port === 'number' && port >= 1 && port <= 65_535
    ? []
    : [port === undefined ? required(path) : invalid(path, port, 'must be between 1 and 65535, inclusive')];

/** Returns a cause for each change of a Pod's spec that the API server refuses. */
export function podUpdateCauses(spec: JsonObject, old: JsonObject): Causes {
  for (const member of ['containers', 'initContainers']) {
    if (listOf(spec[member]).length !== listOf(old[member]).length) {
      return [forbidden(`spec.${member}`, 'pod updates may not add or remove containers')];
    }
  }
  const deadline = [spec.activeDeadlineSeconds, old.activeDeadlineSeconds];
  if (deadline[1] !== undefined && !(typeof deadline[0] === 'number' && deadline[0] <= Number(deadline[1]))) {
    return [invalid('spec.activeDeadlineSeconds', deadline[0], 'must be less than or equal to previous value')];
  }
  const kept = listOf(old.tolerations).every((toleration) =>
    listOf(spec.tolerations).some((one) =>
      sameValue({ ...Object(one), tolerationSeconds: 0 }, { ...Object(toleration), tolerationSeconds: 0 }),
    ),
  );
  const fixed = ({ activeDeadlineSeconds, tolerations, ...rest }: JsonObject) => ({
    ...rest,
    ...Object.fromEntries(
      ['containers', 'initContainers'].map((member) => [
        member,
        listOf(rest[member]).map((container) => ({ ...Object(container), image: '' })),
      ]),
    ),
  });
  const isSame = kept && sameValue(fixed(spec), fixed(old));
  return isSame ? [] : [forbidden('spec', `pod updates may not change fields other than ${updatable.join(',')}`)];
}

const updatable = [
  '`spec.containers[*].image`',
  '`spec.initContainers[*].image`',
  '`spec.activeDeadlineSeconds`',
  '`spec.tolerations` (only additions to existing tolerations)',
  '`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
];
