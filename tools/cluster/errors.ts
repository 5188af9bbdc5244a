/** The cluster can't be had as asked for; the message says why and what to do. */
export class ClusterError extends Error {
  override readonly name = 'ClusterError';
}

/** The command line or the call asks for something that can't be. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** This machine can't run a cluster. */
export class UnsupportedMachineError extends Error {
  override readonly name = 'UnsupportedMachineError';

  constructor(found: string) {
    super(
      `the cluster needs root on Linux, and this is ${found}: install the chart on any other cluster instead, with KUBECONFIG set to it, for example on one made by kind (https://kind.sigs.k8s.io).`,
    );
  }
}

/** @throws UnsupportedMachineError */
export function requireRootOnLinux(): void {
  if (process.platform !== 'linux') throw new UnsupportedMachineError(process.platform);
  if (process.getuid?.() !== 0) throw new UnsupportedMachineError(`Linux as user ${process.getuid?.()}`);
}
