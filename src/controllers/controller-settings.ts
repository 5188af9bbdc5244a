import type { EventRecorder } from '../runtime/index.ts';

/** What each of the operator's controllers is told, whatever its kind. */
export interface ControllerSettings {
  readonly events: EventRecorder;
  /** How many objects are reconciled at once. */
  readonly workers: number;
  /** How often each object is reconciled although nothing has happened, in milliseconds, give or take a tenth. */
  readonly resyncEveryMs: number;
  /** Those whose objects are reconciled. Default: all. */
  readonly namespaces?: readonly string[] | undefined;
}

/** What the informers of a controller are limited to. */
export const scopeOf = ({ namespaces }: Pick<ControllerSettings, 'namespaces'>) =>
  namespaces === undefined ? {} : { namespaces };
