import { DefaultRenderer, Listr, ListrLogger, ProcessOutput } from 'listr2';

/** Receives the progress of a step. */
export interface Report {
  /** Replaces the current activity. A terminal shows it at once, other displays with the next heartbeat. */
  readonly doing: (what: string) => void;
  /** Shows a text at once, for example what the step waits for. */
  readonly notice: (what: string) => void;
}

/** An action that may take minutes. */
export interface Step {
  readonly title: string;
  /** Estimated duration on two cores, in milliseconds. Undefined if unknown. */
  readonly expectedMs?: number;
  readonly run: (report: Report) => Promise<void>;
}

/** Shows the progress of steps. */
export interface Display {
  /** A terminal on which the steps are updated live. Without one, each change calls `line`. */
  readonly terminal?: NodeJS.WriteStream;
  readonly line: (text: string) => void;
  /** The longest time between two lines, in milliseconds. */
  readonly heartbeatMs: number;
}

/** Returns a display on standard error: live on a terminal; otherwise (CI) a line at least every 15 seconds. */
export function standardDisplay(): Display {
  const stream = process.stderr;
  return {
    ...(stream.isTTY && !process.env.CI && { terminal: stream }),
    line: (text) => void stream.write(`${text}\n`),
    heartbeatMs: 15_000,
  };
}

/** Runs the steps one after the other and shows their progress. Stops at the first failure. @throws the step's error */
export async function runSteps(steps: readonly Step[], display: Display): Promise<void> {
  if (display.terminal) await runLive(steps, display.terminal);
  else await runInLines(steps, display);
}

/** Listr uses its live renderer only if standard output is a terminal, but this display may use another stream. */
class TerminalRenderer extends DefaultRenderer {
  static override nonTTY = true;
}

async function runLive(steps: readonly Step[], terminal: NodeJS.WriteStream): Promise<void> {
  const tasks = steps.map((step) => ({
    title: titleWithEstimate(step),
    task: async (_: unknown, task: { title: string; output: string }) => {
      const started = performance.now();
      const showElapsed = () => {
        task.title = `${step.title}: ${elapsedOf(step, started)}`;
      };
      const ticking = setInterval(showElapsed, 1000);
      try {
        const show = (what: string) => {
          task.output = what;
        };
        await step.run({ doing: show, notice: show });
        task.title = `${step.title}: ${duration(performance.now() - started)}`;
      } finally {
        clearInterval(ticking);
      }
    },
  }));
  await new Listr(tasks, {
    // The caller's signal aborts a step. Listr's handler would end the process without cleanup.
    registerSignalListeners: false,
    renderer: TerminalRenderer,
    rendererOptions: {
      logger: new ListrLogger({ processOutput: new ProcessOutput(terminal, terminal) }),
      showErrorMessage: false,
    },
  }).run();
}

async function runInLines(steps: readonly Step[], { line, heartbeatMs }: Display): Promise<void> {
  for (const [index, step] of steps.entries()) {
    const prefix = steps.length > 1 ? `[${index + 1}/${steps.length}] ` : '';
    let doing = '';
    const started = performance.now();
    line(prefix + titleWithEstimate(step));
    const beating = setInterval(
      () => line(`${prefix}${step.title}: ${elapsedOf(step, started)}${doing && `, ${doing}`}`),
      heartbeatMs,
    );
    try {
      await step.run({
        doing: (what) => {
          doing = what;
        },
        notice: (what) => line(`${prefix}${step.title}: ${what}`),
      });
    } finally {
      clearInterval(beating);
    }
    line(`${prefix}${step.title}: done in ${duration(performance.now() - started)}`);
  }
}

function titleWithEstimate({ title, expectedMs }: Step): string {
  return expectedMs === undefined ? title : `${title}: about ${duration(expectedMs)}`;
}

function elapsedOf({ expectedMs }: Step, started: number): string {
  const elapsed = duration(performance.now() - started);
  return expectedMs === undefined ? elapsed : `${elapsed} of about ${duration(expectedMs)}`;
}

/** Formats a duration: `42 s`, `3 min 5 s`. */
export function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const rest = seconds % 60;
  return rest === 0 ? `${seconds / 60} min` : `${Math.floor(seconds / 60)} min ${rest} s`;
}
