import { ExecaError } from 'execa';
import { type Commands, run } from './commands.ts';
import { namespace, release } from './settings.ts';

const lastLines = 15;
const limitMs = 20_000;

/** Returns the output of the commands that a person would run first: the pods, the warnings and the operator's log. */
export async function diagnose(commands: Omit<Commands, 'signal'>): Promise<string> {
  const limited: Commands = { ...commands, signal: AbortSignal.timeout(limitMs) };
  const sections: string[] = [];
  for (const command of [
    ['get', 'pods', '--all-namespaces', '--output=wide'],
    ['get', 'events', '--all-namespaces', '--field-selector=type=Warning', '--sort-by=.lastTimestamp'],
    ['logs', `deployment/${release}`, '--namespace', namespace, `--tail=${lastLines}`],
  ]) {
    sections.push(`$ kubectl ${command.join(' ')}\n${await lastOutput(limited, command)}`);
  }
  return sections.join('\n\n');
}

async function lastOutput(commands: Commands, command: readonly string[]): Promise<string> {
  try {
    return (await run(commands, 'kubectl', ...command)).trim().split('\n').slice(-lastLines).join('\n');
  } catch (error) {
    if (error instanceof ExecaError) return String(error.stderr || error.shortMessage);
    throw error;
  }
}
