/** The cluster could not be brought up, found or changed. The message says why and what to do. */
export class ClusterError extends Error {
  override readonly name = 'ClusterError';
}

/** An argument is invalid. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** This machine cannot run a cluster. */
export class UnsupportedMachineError extends Error {
  override readonly name = 'UnsupportedMachineError';

  constructor(found: string) {
    super(
      `the cluster requires root on Linux, but this is ${found}. Instead, set KUBECONFIG and install the chart on ` +
        'another cluster, for example one made by kind (https://kind.sigs.k8s.io).',
    );
  }
}

/** @throws UnsupportedMachineError */
export function requireRootOnLinux(): void {
  if (process.platform !== 'linux') throw new UnsupportedMachineError(process.platform);
  if (process.getuid?.() !== 0) throw new UnsupportedMachineError(`Linux as user ${process.getuid?.()}`);
}
