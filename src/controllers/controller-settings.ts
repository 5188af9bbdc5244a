import type { EventRecorder } from '../runtime/index.ts';

/** The settings that all controllers of the operator share. */
export interface ControllerSettings {
  readonly events: EventRecorder;
  /** How many objects are reconciled concurrently. */
  readonly workers: number;
  /** The resync period: how often each object is reconciled without an event, in milliseconds, with ±10 % jitter. */
  readonly resyncEveryMs: number;
  /** The namespaces whose objects are reconciled. Default: all. */
  readonly namespaces?: readonly string[] | undefined;
}

/** The informer options that limit a controller to its namespaces. */
export const scopeOf = ({ namespaces }: Pick<ControllerSettings, 'namespaces'>) =>
  namespaces === undefined ? {} : { namespaces };
