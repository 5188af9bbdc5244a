/**
 * The command behind `make demo` and `make clean-demo`: takes a bare machine to a pod that prints `Hola, 世界!`.
 *
 *     node tools/demo/main.ts [up]     runs the demo and keeps its cluster; with DEMO_KEEP=0 removes it at the end
 *     node tools/demo/main.ts down     removes the cluster
 *
 * Ignores KUBECONFIG: the demo changes only its own cluster. Exits with 0 if the pod printed the message, 1 if a step
 * failed, 2 for an unknown command, 128 + n after signal n.
 */
import { ExecaError } from 'execa';
import { abortOnInterrupt, exitCodeOf } from '../abort-on-interrupt.ts';
import { UnsupportedMachineError } from '../cluster/index.ts';
import { duration, standardDisplay } from '../progress.ts';
import { DemoError, removeDemo, runDemo } from './index.ts';
import { nextSteps } from './next-steps.ts';
import { type RunStep, stepRunner } from './run-step.ts';

async function up(runStep: RunStep, keep: boolean, signal: AbortSignal): Promise<void> {
  const started = performance.now();
  try {
    const { log, explanation, ...rest } = await runDemo(runStep, signal);
    console.log(`\nDone after ${duration(performance.now() - started)}. The pod printed:\n\n    ${log}`);
    if (keep) console.log(nextSteps(rest));
    console.log(`What the operator did with the Echo, as its command explain tells it:\n\n${explanation}`);
  } finally {
    if (!keep) await removeDemo(runStep);
  }
}

function explain(error: unknown): string {
  if (error instanceof UnsupportedMachineError) {
    return `${error.message}\nThe demo changes only its own cluster. To install the chart on yours, follow README.md.`;
  }
  // The error output of the program is clearer than its full command line.
  if (error instanceof DemoError) return `${error.message}\n\n${explain(error.cause)}`;
  if (error instanceof ExecaError) return `${error.shortMessage}\n${error.stderr}`;
  if (error instanceof Error) return error.message;
  return String(error);
}

async function main([command = 'up', ...rest]: readonly string[]): Promise<number> {
  if (rest.length > 0 || !['up', 'down'].includes(command)) {
    console.error(`Unknown arguments: ${[command, ...rest].join(' ')}\nUsage: node tools/demo/main.ts [up | down]`);
    return 2;
  }
  const signal = abortOnInterrupt();
  const runStep = stepRunner(standardDisplay());
  const keep = process.env.DEMO_KEEP !== '0';
  try {
    if (command === 'up') await up(runStep, keep, signal);
    else await removeDemo(runStep);
    return 0;
  } catch (error) {
    if (!signal.aborted) {
      console.error(explain(error));
      return 1;
    }
    if (keep) console.error('\nInterrupted. `make demo` continues from here, `make clean-demo` removes everything.');
    return exitCodeOf(signal.reason as NodeJS.Signals);
  }
}

process.exitCode = await main(process.argv.slice(2));
