import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { execa } from 'execa';
import { dieWithParent } from './die-with-parent.ts';
import { eventually } from './eventually.ts';
import { inTime } from './in-time.ts';

/** The processes that a process has started, and theirs. A process that has ended has none. */
async function descendants(pid: number): Promise<readonly number[]> {
  const listed = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  const children = listed.split(' ').filter(Boolean).map(Number);
  return [...children, ...(await Promise.all(children.map(descendants))).flat()];
}

/** The programs of those processes that have not ended, with their arguments. */
async function running(pids: readonly number[]): Promise<readonly string[]> {
  const commandOf = async (pid: number): Promise<string> =>
    (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ').trim();
  return (await Promise.all(pids.map(commandOf))).filter((command) => command !== '');
}

/**
 * Runs a script until it writes to its standard output, kills it, and waits until every program that it has started has
 * ended. Returns these programs, with their arguments. Linux only.
 */
export async function killWithPrograms(script: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<readonly string[]> {
  const [file, args] = dieWithParent(process.execPath, [script]);
  const parent = execa(file, args, { reject: false, buffer: false, stderr: 'inherit' });
  const hasEnded = parent.then(() => Promise.reject(new Error('it has ended before its programs had started')));
  hasEnded.catch(() => {});
  await inTime('its programs have started', Promise.race([once(parent.stdout, 'data'), hasEnded]));
  const pids = await descendants(Number(parent.pid));
  const programs = await running(pids);
  parent.kill(signal);
  await inTime('it has ended', parent);
  await eventually('its programs have ended', async () => (await running(pids)).length === 0);
  return programs;
}
