import { relative } from 'node:path';
import { parseArgs } from 'node:util';
import { createOperator } from './create-operator.ts';
import { InvalidNameError } from './names.ts';

/** The two streams that the command writes lines to. */
export interface Output {
  out(line: string): void;
  error(line: string): void;
}

const usage = `Creates a Kubernetes operator in a new or empty folder.

    npm create @echoperator/operator [FOLDER] -- [OPTIONS]

FOLDER           its name is the name of the operator (default: my-operator)
--kind KIND      the kind of the custom resource (default: Greeting)
--group GROUP    the API group of the kind (default: example.com)
--plural PLURAL  the plural of the kind in the API (default: the plural in English)`;

/**
 * Runs the command `create-operator`.
 *
 * @param args the arguments of the process, without the program and the script.
 * @returns the exit code: 0 on success, 2 if an argument is invalid.
 * @throws the errors of the file system.
 */
export async function runCommand(args: readonly string[], output: Output): Promise<number> {
  try {
    const { values, positionals } = parse(args);
    if (values.help) {
      output.out(usage);
      return 0;
    }
    const { folder, files } = await createOperator({ ...values, folder: positionals[0] });
    const path = relative('', folder) || '.';
    output.out(`Created ${files.length} files in ${folder}:`);
    for (const file of files) output.out(`    ${file}`);
    output.out(`Next:
    cd ${path}
    npm install
    npm run generate
    npm test
README.md says how to run and deploy the operator.`);
    return 0;
  } catch (error) {
    if (!(error instanceof InvalidNameError)) throw error;
    output.error(`${error.message}\n\n${usage}`);
    return 2;
  }
}

function parse(args: readonly string[]) {
  const string = { type: 'string' } as const;
  const options = { kind: string, group: string, plural: string, help: { type: 'boolean', short: 'h' } } as const;
  try {
    const parsed = parseArgs({ args: [...args], options, allowPositionals: true });
    const [, extra] = parsed.positionals;
    if (extra !== undefined) throw new InvalidNameError(`folder: got one more, ${JSON.stringify(extra)}, takes one`);
    return parsed;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // The message of parseArgs names the option.
    if (code?.startsWith('ERR_PARSE_ARGS')) throw new InvalidNameError(message, { cause: error });
    throw error;
  }
}
