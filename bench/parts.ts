import type { Scenario } from './measurements.ts';
import type { OperatorName } from './operators.ts';
import type { Plan } from './plan.ts';

/** The parts of the benchmark. Each can be measured alone. */
export const partNames = ['burst', 'cache', 'lifecycle', 'failover', 'external', 'neighbor', 'refused'] as const;

export type PartName = (typeof partNames)[number];

interface Part {
  /** What it measures. */
  readonly title: string;
  /** About how long the usual plan takes on two cores, once the peers are built. */
  readonly minutes: number;
  readonly scenarios: readonly (Scenario | 'restart')[];
  readonly operators: readonly OperatorName[];
  /** The values of the plan that it uses. */
  readonly plan: readonly (keyof Plan)[];
}

export const parts: Readonly<Record<PartName, Part>> = {
  burst: {
    title: 'bursts, even paces, the flight recorder, the long burst',
    minutes: 15,
    scenarios: ['load', 'side by side', 'long burst'],
    operators: [
      'echoperator',
      'controller-runtime',
      'controller-runtime-ryw',
      'kube-rs',
      'client-node',
      'unrecorded',
      'before',
    ],
    plan: ['rounds', 'someRounds', 'burst', 'besideRounds', 'besideBurst', 'paceSeconds', 'longRounds', 'longBurst'],
  },
  cache: {
    title: 'memory, start and pauses with many objects, the cost of an event',
    minutes: 15,
    scenarios: ['cache', 'restart', 'event cost'],
    operators: ['echoperator', 'controller-runtime', 'kube-rs', 'before'],
    plan: [
      'cachedObjects',
      'judgedObjects',
      'cacheRounds',
      'curveRounds',
      'eventObjects',
      'eventCostRounds',
      'settleMs',
    ],
  },
  lifecycle: {
    title: 'Echos until their Job has succeeded',
    minutes: 2,
    scenarios: ['to Succeeded'],
    operators: ['echoperator', 'before'],
    plan: ['lifecycleRounds', 'lifecycleBurst'],
  },
  failover: {
    title: 'leaders that are stopped, killed or lose their node; idle groups',
    minutes: 12,
    scenarios: ['handover', 'crash', 'lost node', 'idle group'],
    operators: ['echoperator', 'controller-runtime'],
    plan: ['handoverRounds', 'handovers', 'crashRounds', 'nodeRounds', 'echosPerSecond', 'idleRounds', 'idleSeconds'],
  },
  external: {
    title: 'the kinds with an external system',
    minutes: 4,
    scenarios: ['rows', 'pets'],
    operators: ['echoperator'],
    plan: ['externalRounds', 'postgresWriters', 'pets'],
  },
  neighbor: {
    title: 'a tenant beside one that creates many Echos at once',
    minutes: 9,
    scenarios: ['neighbor'],
    operators: ['echoperator', 'controller-runtime', 'kube-rs', 'before'],
    plan: ['neighborRounds', 'neighborObjects'],
  },
  refused: {
    title: 'a tenant beside one whose Jobs are refused, and the recovery of that one',
    minutes: 12,
    scenarios: ['refused neighbor'],
    operators: ['echoperator', 'controller-runtime', 'kube-rs', 'before'],
    plan: ['refusedRounds', 'refusedObjects'],
  },
};

export const minutesOf = (names: readonly PartName[]): number =>
  names.reduce((sum, name) => sum + parts[name].minutes, 0);
