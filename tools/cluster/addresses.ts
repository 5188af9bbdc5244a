/** Pods and services are seen inside the cluster's namespaces alone, so every cluster may use the same addresses. */
export const podNetwork = '10.244.0.0/16';
export const serviceNetwork = '10.96.0.0/16';
export const apiServerServiceIp = '10.96.0.1';
export const dnsServiceIp = '10.96.0.10';

/** The networks of the machines of all clusters, of which each has one: what the host sees of them. */
export const addressesOfAllClusters = '10.213.0.0/16';

/** The addresses of one cluster's machines. */
export interface Addresses {
  /** With its prefix length, for the host's end of the link. */
  readonly host: string;
  readonly controlPlane: string;
  /** @param index from 0 */
  node(index: number): string;
  /** The pods of a node. @param index from 0 */
  pods(index: number): string;
}

/** @param network see ClusterState */
export function addressesOf(network: number): Addresses {
  return {
    host: `10.213.${network}.254/24`,
    controlPlane: `10.213.${network}.1`,
    node: (index) => `10.213.${network}.${11 + index}`,
    pods: (index) => `10.244.${index + 1}.0/24`,
  };
}
