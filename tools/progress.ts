import { DefaultRenderer, Listr, ListrLogger, ProcessOutput } from 'listr2';

/** How a step tells what is going on. */
export interface Report {
  /** What it is doing now, in place of what it said before: shown live, or with the next sign of life. */
  readonly doing: (what: string) => void;
  /** What has to be known at once, such as what it waits for. */
  readonly notice: (what: string) => void;
}

/** A piece of work that may take minutes. */
export interface Step {
  readonly title: string;
  /** About how long it takes on two cores, in milliseconds; undefined where nobody knows. */
  readonly expectedMs?: number;
  readonly run: (report: Report) => Promise<void>;
}

/** Where those who watch look. */
export interface Display {
  /** A terminal that shows the steps live; without one, `line` is called. */
  readonly terminal?: NodeJS.WriteStream;
  readonly line: (text: string) => void;
  /** The longest silence between two lines, in milliseconds. */
  readonly heartbeatMs: number;
}

/** Standard error: live on a terminal; elsewhere (CI) a line at least every 15 seconds. */
export function standardDisplay(): Display {
  const stream = process.stderr;
  return {
    ...(stream.isTTY && !process.env.CI && { terminal: stream }),
    line: (text) => void stream.write(`${text}\n`),
    heartbeatMs: 15_000,
  };
}

/** Runs the steps one after the other and shows how each goes on. @throws what the first step that fails throws */
export async function runSteps(steps: readonly Step[], display: Display): Promise<void> {
  if (display.terminal) await runLive(steps, display.terminal);
  else await runInLines(steps, display);
}

/** Listr's own renderer gives way to plain lines unless standard output is a terminal; here another stream is. */
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
    // The caller's signal ends a step; a handler here would end the whole process and skip all cleaning up.
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

/** `42 s`, `3 min 5 s`. */
export function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const rest = seconds % 60;
  return rest === 0 ? `${seconds / 60} min` : `${Math.floor(seconds / 60)} min ${rest} s`;
}
