import { constants } from 'node:os';

/** One Ctrl-C can arrive twice: from the terminal, and from npm, which forwards signals. */
const sameKeyPressMs = 500;

/**
 * Returns an AbortSignal that SIGINT or SIGTERM aborts, with the signal's name as the reason. A second signal ends the
 * process at once.
 *
 * The listeners stay, unlike those of `process.once`: for a signal without listeners, execa ends the process before it
 * can clean up.
 */
export function abortOnInterrupt(): AbortSignal {
  const controller = new AbortController();
  let firstMs: number | undefined;
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      const nowMs = performance.now();
      firstMs ??= nowMs;
      controller.abort(name);
      if (nowMs - firstMs > sameKeyPressMs) process.exit(exitCodeOf(name));
    });
  }
  return controller.signal;
}

/** Returns the exit code that a shell reports for a process ended by this signal. */
export function exitCodeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}
