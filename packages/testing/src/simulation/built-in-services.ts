/** What the API server computes and checks in Services (k8s.io/kubernetes/pkg/registry/core/service/storage). */
import { createHash } from 'node:crypto';
import { getMember, type JsonObject } from '@echoperator/runtime/internal';
import type { Complete } from './built-in-decoding.ts';
import { portCauses } from './built-in-pods.ts';
import { type Causes, dnsLabel, invalid, listOf, required, sameValue, unsupported } from './built-in-refusals.ts';
import { fieldError } from './field-error.ts';
import { NotSimulatedError } from './strategy.ts';

const types = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'];
const hasClusterIp = ({ type }: JsonObject): boolean => type !== 'ExternalName';
const hasNodePorts = ({ type, allocateLoadBalancerNodePorts }: JsonObject): boolean =>
  type === 'NodePort' || (type === 'LoadBalancer' && allocateLoadBalancerNodePorts !== false);
const isExternal = ({ type, externalIPs }: JsonObject): boolean =>
  type === 'NodePort' || type === 'LoadBalancer' || (type === 'ClusterIP' && externalIPs !== undefined);

export const completeServices: Readonly<Record<string, Complete>> = {
  'core.v1.ServicePort': (port) => {
    if ([undefined, 0, ''].includes(port.targetPort as string)) port.targetPort = port.port;
  },
  'core.v1.ServiceSpec': (spec) => {
    if (spec.sessionAffinity === 'None') delete spec.sessionAffinityConfig;
    if (isExternal(spec)) spec.externalTrafficPolicy ??= 'Cluster';
    if (spec.type !== 'ExternalName') spec.internalTrafficPolicy ??= 'Cluster';
    if (spec.type === 'LoadBalancer') spec.allocateLoadBalancerNodePorts ??= true;
  },
};

/**
 * Fills in the addresses and node ports that the spec lacks, or copies them from the old spec. They are derived from
 * the object's uid, so that runs repeat. Unlike the API server's, they may be equal for two Services.
 */
export function allocateService(sent: JsonObject, uid: string, old?: JsonObject): JsonObject {
  if (sent.sessionAffinity === 'ClientIP') throw new NotSimulatedError('spec.sessionAffinity ClientIP of a Service');
  if (sent.type === 'LoadBalancer' && sent.externalTrafficPolicy === 'Local') {
    throw new NotSimulatedError('spec.externalTrafficPolicy Local of a Service');
  }
  if (String(sent.ipFamilyPolicy).endsWith('DualStack') && sent.clusterIP !== 'None') {
    throw new NotSimulatedError('a Service with two stacks');
  }
  const spec: Record<string, unknown> = old === undefined ? { ...sent } : inherit(sent, old);
  if (hasClusterIp(spec)) {
    spec.clusterIP ??= addressOf(uid);
    spec.clusterIPs ??= [spec.clusterIP];
    const isForeign = spec.clusterIP === 'None' && spec.selector === undefined;
    spec.ipFamilyPolicy ??= old?.ipFamilyPolicy ?? (isForeign ? 'RequireDualStack' : 'SingleStack');
    spec.ipFamilies ??= spec.ipFamilyPolicy === 'RequireDualStack' ? ['IPv4', 'IPv6'] : ['IPv4'];
  }
  if (hasNodePorts(spec) && Array.isArray(spec.ports)) {
    const given = spec.ports.flatMap(({ nodePort, protocol }: JsonObject) =>
      nodePort ? `${nodePort} ${protocol}` : [],
    );
    if (new Set(given).size < given.length) throw new NotSimulatedError('a Service with the same node port twice');
    spec.ports = spec.ports.map((port: JsonObject, index) => ({ nodePort: nodePortOf(uid, index), ...port }));
  }
  return spec;
}

/** Keeps what was allocated to the old spec, and drops what the new type does not have. */
function inherit(sent: JsonObject, old: JsonObject): Record<string, unknown> {
  const spec: Record<string, unknown> = { ...sent };
  if (hasClusterIp(old) && hasClusterIp(spec)) {
    spec.clusterIP ??= old.clusterIP;
    if (!sameValue(spec.clusterIP, old.clusterIP) && sameValue(spec.clusterIPs, old.clusterIPs)) {
      spec.clusterIPs = [spec.clusterIP];
    }
    spec.clusterIPs ??= old.clusterIPs;
  }
  if (hasClusterIp(old) && !hasClusterIp(spec)) {
    for (const field of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy']) {
      if (sameValue(spec[field], old[field])) delete spec[field];
    }
  }
  const ports = (of: JsonObject) => listOf(of.ports) as readonly JsonObject[];
  if (hasNodePorts(old) && hasNodePorts(spec)) {
    const used = ports(spec).map(({ nodePort }) => nodePort);
    const byName = new Map(ports(old).map(({ name, nodePort }) => [name, nodePort]));
    spec.ports = ports(spec).map((port) => {
      const nodePort = byName.get(port.name);
      return nodePort === undefined || used.includes(nodePort) ? port : { nodePort, ...port };
    });
  }
  const nodePorts = (of: JsonObject) => ports(of).map(({ nodePort }) => nodePort);
  if (hasNodePorts(old) && !hasNodePorts(spec) && sameValue(nodePorts(spec), nodePorts(old))) {
    spec.ports = ports(spec).map(({ nodePort: _, ...port }) => port);
  }
  const wasDropped = (field: string): boolean => sameValue(spec[field], old[field]);
  if (old.type === 'LoadBalancer' && spec.type !== 'LoadBalancer' && wasDropped('allocateLoadBalancerNodePorts')) {
    delete spec.allocateLoadBalancerNodePorts;
  }
  if (isExternal(old) && !isExternal(spec) && wasDropped('externalTrafficPolicy')) delete spec.externalTrafficPolicy;
  return spec;
}

const hashOf = (text: string): number => createHash('sha256').update(text).digest().readUInt32BE();

function addressOf(uid: string): string {
  const hash = hashOf(uid);
  return `10.96.${(hash >>> 8) & 255}.${(hash & 127) + 1}`;
}

const nodePortOf = (uid: string, index: number): number => 30_000 + ((hashOf(uid) + index) % 2768);

/** Returns a cause for each change of a Service's spec that the API server refuses. */
export function serviceUpdateCauses(spec: JsonObject, old: JsonObject): Causes {
  const isMoved =
    hasClusterIp(old) && hasClusterIp(spec) && !sameValue(listOf(spec.clusterIPs)[0], listOf(old.clusterIPs)[0]);
  return isMoved ? [invalid('spec.clusterIPs[0]', spec.clusterIPs, 'may not change once set')] : [];
}

/** Checks a Service's spec for common mistakes. The API server has more checks. */
export function serviceCauses(spec: JsonObject): Causes {
  const ports = listOf(spec.ports);
  const isHeadless = spec.clusterIP === 'None';
  const keys = ports.map((port) => `${getMember(port, 'protocol')} ${getMember(port, 'port')}`);
  const names = ports.map((port) => getMember(port, 'name'));
  return [
    ...(types.includes(String(spec.type)) ? [] : [unsupported('spec.type', spec.type, types)]),
    ...(ports.length === 0 && !isHeadless && spec.type !== 'ExternalName' ? [required('spec.ports')] : []),
    ...(isHeadless && (spec.type === 'NodePort' || spec.type === 'LoadBalancer')
      ? [invalid('spec.clusterIPs[0]', 'None', `may not be set to 'None' for ${spec.type} services`)]
      : []),
    ...(spec.type === 'ExternalName' && spec.externalName === undefined ? [required('spec.externalName')] : []),
    ...(spec.type === 'ExternalName' && spec.clusterIP !== undefined
      ? [invalid('spec.clusterIPs', spec.clusterIPs, 'may not be set for ExternalName services')]
      : []),
    ...ports.flatMap((port, index) => {
      const path = `spec.ports[${index}]`;
      const name = names[index];
      const isNamed = name !== undefined && name !== '';
      return [
        ...(!isNamed && ports.length > 1 ? [required(`${path}.name`)] : []),
        ...(isNamed && !dnsLabel.test(String(name)) ? [invalid(`${path}.name`, name, 'must be a DNS label')] : []),
        ...portCauses(getMember(port, 'port'), `${path}.port`),
        ...(keys.indexOf(keys[index] ?? '') < index || (isNamed && names.indexOf(name) < index)
          ? [fieldError('FieldValueDuplicate', path)]
          : []),
      ];
    }),
  ];
}
