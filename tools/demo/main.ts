/**
 * From a bare machine to a pod that prints `Hola, 世界!`, as `make demo` and `make clean-demo` call it.
 *
 *     node tools/demo/main.ts [up]     runs the demo and leaves its cluster; DEMO_KEEP=0: removes it at the end
 *     node tools/demo/main.ts down     removes it
 *
 * A KUBECONFIG that is set is passed over: the demo touches its own cluster and no other. Exits with 0 when the pod
 * printed what it had to, 1 when it did not or something failed, 2 for an unknown command, 128 + n after signal n.
 */
import { ExecaError } from 'execa';
import { UnsupportedMachineError } from '../cluster/index.ts';
import { exitCodeOf, interruption } from '../interruption.ts';
import { duration, standardDisplay } from '../progress.ts';
import { farewell } from './farewell.ts';
import { DemoError, demo, removeDemo } from './index.ts';
import { type Show, showOn } from './step.ts';

async function up(show: Show, keep: boolean, signal: AbortSignal): Promise<void> {
  const started = performance.now();
  try {
    const { log, ...rest } = await demo(show, signal);
    console.log(`\nThe pod printed, ${duration(performance.now() - started)} after the start:\n\n    ${log}`);
    if (keep) console.log(farewell(rest));
  } finally {
    if (!keep) await removeDemo(show);
  }
}

function explain(error: unknown): string {
  if (error instanceof UnsupportedMachineError) {
    return `${error.message}\nThe demo touches no cluster but its own; on yours, install the chart as README.md says.`;
  }
  // What the program said, and not the whole of how it was called.
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
  const signal = interruption();
  const show = showOn(standardDisplay());
  const keep = process.env.DEMO_KEEP !== '0';
  try {
    if (command === 'up') await up(show, keep, signal);
    else await removeDemo(show);
    return 0;
  } catch (error) {
    if (!signal.aborted) {
      console.error(explain(error));
      return 1;
    }
    if (keep) console.error('\nInterrupted. `make demo` goes on from here, `make clean-demo` removes what there is.');
    return exitCodeOf(signal.reason as NodeJS.Signals);
  }
}

process.exitCode = await main(process.argv.slice(2));
