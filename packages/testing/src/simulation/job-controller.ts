import { controllerReference, isControlledBy, keyOf } from '@echoperator/runtime';
import { Job, Pod } from '@echoperator/runtime/kinds';
import type { SimulationStep } from './simulated-network.ts';
import type { Simulation } from './simulation.ts';
import { NotSimulatedError } from './strategy.ts';

/**
 * Simulates the controller of Jobs: creates a pod for each Job, and completes or fails the Job with its pod. A pod ends
 * when a test sets its phase to `Succeeded` or `Failed`; nothing else runs pods. For
 * {@link ClusterOptions.otherControllers}.
 *
 * @throws NotSimulatedError for Jobs of more than one pod, and for failures that must be retried.
 */
export const jobController = (simulation: Simulation): readonly SimulationStep[] =>
  simulation.objects(Job).flatMap((job) => {
    const step = stepFor(job, simulation);
    return step === undefined
      ? []
      : [{ ...step, description: `job controller: ${step.description} ${job.metadata.name}` }];
  });

function stepFor(job: Job, simulation: Simulation): SimulationStep | undefined {
  const { client } = simulation;
  const { metadata, spec, status } = job;
  const { completions = 1, parallelism = 1, suspend = false, template, backoffLimit = 6 } = spec ?? {};
  if (metadata.deletionTimestamp !== undefined || (status?.conditions ?? []).length > 0) return undefined;
  if (completions !== 1 || parallelism !== 1)
    throw new NotSimulatedError(`Job ${metadata.name}: the simulated job controller knows only Jobs of one pod`);
  const now = new Date().toISOString().replace(/\.\d+/, '');
  const report = (description: string, next: object): SimulationStep => ({
    description,
    run: async () => {
      await client.mergeStatus(Job, metadata, next as Job['status'] & object);
    },
  });
  const [pod] = simulation.objects(Pod).filter((each) => isControlledBy(each, job));
  if (pod === undefined) {
    if (suspend) return undefined;
    const name = `${metadata.name}-${Math.random().toString(36).slice(2, 7)}`;
    const ownerReferences = [controllerReference(Job, job)];
    const { labels, annotations } = template?.metadata ?? {};
    const ofPod = {
      ...keyOf(job),
      name,
      ownerReferences,
      ...(labels && { labels }),
      ...(annotations && { annotations }),
    };
    return {
      description: 'creates the pod of',
      run: async () => {
        await client.create(Pod, { metadata: ofPod, spec: template?.spec as Pod['spec'] & object });
      },
    };
  }
  const phase = pod.status?.phase;
  if (phase === 'Succeeded') {
    const condition = { status: 'True', lastProbeTime: now, lastTransitionTime: now };
    const conditions = [
      { type: 'SuccessCriteriaMet', ...condition, reason: 'CompletionsReached' },
      { type: 'Complete', ...condition },
    ];
    return report('completes', { conditions, completionTime: now, succeeded: 1, active: null, ready: 0 });
  }
  if (phase === 'Failed') {
    if (backoffLimit > 0)
      throw new NotSimulatedError(
        `Job ${metadata.name}: the simulated job controller repeats nothing: set backoffLimit to 0`,
      );
    const condition = { status: 'True', lastProbeTime: now, lastTransitionTime: now, reason: 'BackoffLimitExceeded' };
    return report('fails', { conditions: [{ type: 'Failed', ...condition }], failed: 1, active: null, ready: 0 });
  }
  return status?.active === 1 ? undefined : report('starts', { active: 1, ready: 0, startTime: now });
}
