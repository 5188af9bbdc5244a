/**
 * Runs a command that must not outlive the process that started it, whichever way that ends:
 *
 *     node tools/die-with-parent.ts COMMAND [ARGUMENT…]     with a pipe as standard input, held open by the starter
 *
 * When the pipe is closed, which the operating system does for a process killed with -9 too, or on SIGTERM, the command
 * and all that it started are killed. Otherwise it ends as the command ends: with its exit code, 128 + n after signal n.
 */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';

const [command, ...args] = process.argv.slice(2);
if (command === undefined) {
  console.error('usage: node tools/die-with-parent.ts COMMAND [ARGUMENT…]');
  process.exit(2);
}

function killGroup(): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

process.on('SIGTERM', killGroup);
// A terminal sends these to this process as well. What follows from them is for the starter to decide: if it ends, the
// pipe says so.
for (const signal of ['SIGINT', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => undefined);

// After the listeners: a signal that came between the two would end this process and leave the command running. It has a
// process group of its own, so that what it starts is killed with it.
const child = spawn(command, args, { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
process.stdin.on('close', killGroup);
process.stdin.resume();

child.on('error', (error) => {
  console.error(error.message);
  process.exit(127);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal ?? 'SIGKILL']));
