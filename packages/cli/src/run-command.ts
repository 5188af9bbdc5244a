import { generate } from './generate/generate-command.ts';
import { kinds } from './import-kinds/kinds-command.ts';
import { migrate } from './migrate/migrate-command.ts';
import { type Output, type Subcommand, UsageError } from './subcommand.ts';

/** Every subcommand by its name. */
const subcommands: ReadonlyMap<string, Subcommand> = new Map([
  ['generate', generate],
  ['kinds', kinds],
  ['migrate', migrate],
]);

const usage = ['Usage:', ...[...subcommands.values()].map((each) => `  echoperator-cli ${each.usage}`)].join('\n');

/**
 * Runs the subcommand that the first argument names.
 *
 * @param args the arguments of the process, without the program and the script.
 * @returns the exit code: 0 on success, 1 if the command fails, 2 if the arguments are wrong. Never rejects: it prints
 *   the message of an error.
 */
export async function runCommand(args: readonly string[], output: Output): Promise<number> {
  const [name, ...rest] = args;
  if (name === '--help' || name === '-h') {
    output.out(usage);
    return 0;
  }
  const subcommand = subcommands.get(name ?? '');
  if (subcommand === undefined) {
    output.error(name === undefined ? usage : `there is no command ${JSON.stringify(name)}\n${usage}`);
    return 2;
  }
  try {
    return await subcommand.run(rest, output);
  } catch (error) {
    const isUsage = error instanceof UsageError;
    const message = error instanceof Error ? error.message : String(error);
    output.error(isUsage ? `${message}\nUsage: echoperator-cli ${subcommand.usage}` : message);
    return isUsage ? 2 : 1;
  }
}
