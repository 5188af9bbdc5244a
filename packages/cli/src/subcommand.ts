import { type ParseArgsConfig, parseArgs } from 'node:util';

/** One of the commands of `echoperator-cli`. */
export interface Subcommand {
  /** What `echoperator-cli --help` prints. */
  readonly usage: string;
  /**
   * @param args what follows the name of the subcommand.
   * @param output what the command prints.
   * @returns the exit code.
   * @throws UsageError if the arguments are wrong; another Error if the command fails.
   */
  run(args: readonly string[], output: Output): Promise<number>;
}

/** The two streams that a command writes lines to. */
export interface Output {
  out(line: string): void;
  error(line: string): void;
}

/** The arguments of a command are wrong. The message says which. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** As `parseArgs` of `node:util`. @throws UsageError for arguments that do not match the configuration */
export function parsedArgs<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (cause) {
    throw new UsageError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}
