import { constants } from 'node:os';

/** One Ctrl-C may arrive twice: from the terminal, and from npm, which passes on what it gets. */
const sameKeyPressMs = 500;

/**
 * Aborted by SIGINT or SIGTERM, with the signal's name as the reason. A second one ends the process at once.
 *
 * The listeners stay, unlike those of `process.once`: execa ends the process by itself, before anything is cleaned up,
 * when a signal arrives that nobody else listens to.
 */
export function interruption(): AbortSignal {
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

/** What a shell reports for a process that a signal ended. */
export function exitCodeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}
