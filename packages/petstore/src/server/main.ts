/** The pet store's server and its command-line client. */
import { ConnectError } from '@connectrpc/connect';
import { printableLines, terminationSignal } from '@echoperator/runtime/process';
import { pino } from 'pino';
import { isClientCommand, runCommand, usage } from './command-line.ts';
import { DatabaseError } from './database.ts';
import { UsageError } from './remote-pets.ts';
import { serve } from './serve.ts';
import { readSettings, SettingsError } from './settings.ts';

/** The package's version, which the bundler sets. */
declare const ECHOPERATOR_VERSION: string | undefined;

const version = typeof ECHOPERATOR_VERSION === 'string' ? ECHOPERATOR_VERSION : 'dev';

/** 0: success. 1: failure. 2: invalid arguments or settings. */
type ExitCode = 0 | 1 | 2;

async function main(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<ExitCode> {
  const [command, ...rest] = args;
  if (isClientCommand(command)) {
    await runCommand(command, rest, environment, (text) => process.stdout.write(text));
    return 0;
  }
  if (rest.length > 0 || (command !== 'serve' && command !== 'version')) {
    process.stderr.write(`unknown arguments: ${args.join(' ')}\n\n${usage}`);
    return 2;
  }
  if (command === 'version') {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  const settings = readSettings(environment);
  const log = pino({ level: settings.logLevel, base: { env: settings.env, version } });
  await serve(settings, log, terminationSignal(process, log));
  return 0;
}

function reportFailure(error: unknown): ExitCode {
  if (error instanceof UsageError || error instanceof SettingsError || error instanceof DatabaseError) {
    process.stderr.write(`${printableLines(error.message)}\n`);
    return 2;
  }
  if (error instanceof ConnectError) {
    process.stderr.write(`petstore: ${printableLines(error.message)}\n`);
    return 1;
  }
  process.stderr.write(`${printableLines(error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`);
  return 1;
}

// Do not call process.exit(): it would lose output that is still in a pipe.
process.exitCode = await main(process.argv.slice(2), process.env).catch(reportFailure);
