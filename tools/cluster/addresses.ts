/**
 * Addresses of pods and Services are visible only in the cluster's network namespaces, so all clusters use the same
 * ones.
 */
export const podNetwork = '10.244.0.0/16';
export const serviceNetwork = '10.96.0.0/16';
export const apiServerServiceIp = '10.96.0.1';
export const dnsServiceIp = '10.96.0.10';

/** Contains the network of every cluster's nodes. These are the only addresses that the host sees. */
export const addressesOfAllClusters = '10.213.0.0/16';

/** The addresses of one cluster's control plane and nodes. */
export interface Addresses {
  /** The address of the host's end of the link. */
  readonly host: string;
  readonly controlPlane: string;
  /** The address of a node. @param index from 0 */
  node(index: number): string;
  /** The subnet of a node's pods. @param index from 0 */
  pods(index: number): string;
}

/** @param network the third byte of the addresses, see ClusterState */
export function addressesOf(network: number): Addresses {
  return {
    host: `10.213.${network}.254`,
    controlPlane: `10.213.${network}.1`,
    node: (index) => `10.213.${network}.${11 + index}`,
    pods: (index) => `10.244.${index + 1}.0/24`,
  };
}
