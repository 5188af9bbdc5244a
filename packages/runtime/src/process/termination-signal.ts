import type { Logger } from '../shared/logger.ts';

/** The part of Node's `process` that {@link terminationSignal} uses. */
export interface TerminableProcess {
  on(signal: 'SIGTERM' | 'SIGINT', listener: () => void): unknown;
  exit(code: number): void;
}

/**
 * Returns a signal that aborts when the process receives SIGTERM or SIGINT. A second SIGTERM or SIGINT ends the process
 * at once with exit code 1.
 */
export function terminationSignal(process: TerminableProcess, log: Logger): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(1);
      log.info({ signal: name }, 'asked to stop');
      controller.abort();
    });
  }
  return controller.signal;
}
