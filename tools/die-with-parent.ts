/**
 * Runs a command that must not outlive its parent, even if the parent is killed with SIGKILL:
 *
 *     node tools/die-with-parent.ts COMMAND [ARGUMENT…]     with a pipe as standard input, which the parent keeps open
 *
 * Kills the command and its children when the pipe closes or on SIGTERM. The operating system closes the pipe when the
 * parent ends. Exits with the command's exit code, or 128 + n after signal n.
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
// A terminal sends these signals to this process too. The parent decides what to do: if it exits, the pipe closes.
for (const signal of ['SIGINT', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => undefined);

// Spawned after the listeners exist: a signal in between would end this process and leave the command running. The
// command gets its own process group, so that its children can be killed with it.
const child = spawn(command, args, { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
process.stdin.on('close', killGroup);
process.stdin.resume();

child.on('error', (error) => {
  console.error(error.message);
  process.exit(127);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal ?? 'SIGKILL']));
