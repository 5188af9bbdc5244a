import type { Logger } from '../shared/logger.ts';
import type { Operator } from './connect-operator.ts';

/**
 * Something that every process of an operator runs beside its controllers, whether or not it leads, such as a server of
 * webhooks.
 */
export interface OperatorService {
  /**
   * Called before the operator runs. May add tasks for the leader: `operator.manager.task`.
   *
   * @throws any error; the operator then does not start.
   */
  start(
    operator: Operator,
    options: { readonly log: Logger; readonly environment: NodeJS.ProcessEnv },
  ): Promise<RunningService>;
}

/** A started {@link OperatorService}. */
export interface RunningService {
  /** What it waits for before the process is ready. Undefined: it is ready. */
  waitingFor(): string | undefined;
  /** Called once, when the process is asked to stop or the operator has failed. Resolves when it has stopped. */
  stop(): Promise<void>;
}
