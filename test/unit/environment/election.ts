/** The Lease that scripted elections are about. */
export const electionLease = { namespace: 'ns', name: 'greeter' };
export const leasesPath = '/apis/coordination.k8s.io/v1/namespaces/ns/leases';
export const leasePath = `${leasesPath}/greeter`;

/** A leader renews when it begins, and not again while a test looks. */
export const slowTimings = { leaseDurationSeconds: 90, renewDeadlineSeconds: 80, retryPeriodSeconds: 60 };

/** The Lease as the API server has it. */
export const heldBy = (holderIdentity: string, resourceVersion: string) => ({
  metadata: { ...electionLease, uid: 'lease', resourceVersion },
  spec: {
    holderIdentity,
    leaseDurationSeconds: 90,
    acquireTime: '2026-01-01T00:00:00.000000Z',
    renewTime: '2026-01-01T00:00:00.000000Z',
    leaseTransitions: 0,
  },
});
