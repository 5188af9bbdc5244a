import { ExecaError } from 'execa';
import { type Commands, run } from './commands.ts';
import { namespace, release } from './settings.ts';

const lastLines = 15;
const limitMs = 20_000;

/** What a person would look at first when the cluster does not do what it should. */
export async function diagnose(commands: Omit<Commands, 'signal'>): Promise<string> {
  const limited: Commands = { ...commands, signal: AbortSignal.timeout(limitMs) };
  const sections: string[] = [];
  for (const question of [
    ['get', 'pods', '--all-namespaces', '--output=wide'],
    ['get', 'events', '--all-namespaces', '--field-selector=type=Warning', '--sort-by=.lastTimestamp'],
    ['logs', `deployment/${release}`, '--namespace', namespace, `--tail=${lastLines}`],
  ]) {
    sections.push(`$ kubectl ${question.join(' ')}\n${await answer(limited, question)}`);
  }
  return sections.join('\n\n');
}

async function answer(commands: Commands, question: readonly string[]): Promise<string> {
  try {
    return (await run(commands, 'kubectl', ...question)).trim().split('\n').slice(-lastLines).join('\n');
  } catch (error) {
    if (error instanceof ExecaError) return String(error.stderr || error.shortMessage);
    throw error;
  }
}
