import type { Logger } from '../observability/index.ts';

/** What is used of Node's `process` to end in order. */
export interface Terminable {
  on(signal: 'SIGTERM' | 'SIGINT', listener: () => void): unknown;
  exit(code: number): void;
}

/**
 * A signal that is aborted when the process is asked to stop, by SIGTERM or SIGINT. Asked a second time, while the
 * first is being honoured, the process ends at once with exit code 1.
 */
export function untilTerminated(process: Terminable, log: Logger): AbortSignal {
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
