import type { Logger } from '@echoperator/runtime';
import { ConnectionError, connect, createClient } from '@echoperator/runtime/client';
import { PlanError } from '@echoperator/runtime/plan';
import { CacheSyncError, printableLines, terminationSignal } from '@echoperator/runtime/process';
import { checkUninstall, StillNeededError } from './commands/check-uninstall.ts';
import { applyCustomResourceDefinitions, deleteCustomResourceDefinitions, unreleased } from './commands/crds.ts';
import { ExplainError, ExplainUsageError, explainCommand } from './commands/explain.ts';
import { PlanUsageError, planCommand } from './commands/plan.ts';
import { type Config, ConfigError, readConfig } from './config.ts';
import { openLog } from './log.ts';
import { kinds, kindsWithFinalizer } from './operator.ts';
import { controllerDisabled, fieldManager, run } from './runner.ts';

/** The package's version, which the bundler defines. */
declare const ECHOPERATOR_VERSION: string | undefined;

const version = typeof ECHOPERATOR_VERSION === 'string' ? ECHOPERATOR_VERSION : unreleased;
const userAgent = `echoperator/${version}`;

const usage = `Usage: echoperator [command]

Commands:
  (none)            run the operator; environment variables contain its settings
  apply-crds        apply the CustomResourceDefinitions of this version and wait until the API server serves them
  delete-crds       delete these CustomResourceDefinitions and every object of their kinds, and wait until they are gone
  check-uninstall   list the objects whose deletion needs the operator, and fail if there are any
  explain KIND/NAME [-n NAMESPACE] [--json] [--follow]
                    print why the operator in this container did what it did with an object, and what it waits for
  explain --since SECONDS [-n NAMESPACE] [--json] [--follow]
                    print what the operator in this container did, in a namespace or in all, and what it has not ended
  plan [-n NAMESPACE]... [--kind KIND]... [--json] [--fail-on TYPE,...] [--requests-per-second N]
                    print what this version would do first with each object of the cluster, and store nothing
  version           print the version

--help or -h prints this.
`;

const commands = ['apply-crds', 'delete-crds', 'check-uninstall', 'version'] as const;
type Command = (typeof commands)[number];

/**
 * The time limit of a command. apply-crds waits for the API server, which takes seconds to serve a new kind;
 * delete-crds waits until every object is deleted.
 */
const commandTimeoutMs = 60_000;

/** 0: success. 1: failure. 2: bad arguments or settings. 3: `plan` has found changes. */
type ExitCode = 0 | 1 | 2 | 3;

async function main(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<ExitCode> {
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(usage);
    return 0;
  }
  if (args[0] === 'explain') {
    const color = process.stdout.isTTY;
    for await (const text of explainCommand(args.slice(1), readConfig(environment).explainDir, { color })) {
      await print(text);
    }
    return 0;
  }
  if (args[0] === 'plan') {
    const config = readConfig(environment);
    const log = openLog(process, config.logLevel, { env: config.env, version }, process.stderr.fd);
    const signal = terminationSignal(process, log);
    const { text, hasChanges } = await planCommand(args.slice(1), { config, environment, log, userAgent, signal });
    await print(text);
    return hasChanges ? 3 : 0;
  }
  const command = commands.find((known) => known === args[0]);
  if (args.length > 1 || (args.length === 1 && command === undefined)) {
    process.stderr.write(`unknown arguments: ${args.join(' ')}\n\n${usage}`);
    return 2;
  }
  if (command === 'version') {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  const config = readConfig(environment);
  const log: Logger = openLog(process, config.logLevel, { env: config.env, version });
  if (command === undefined) {
    await run({ process, config, log, userAgent });
    return process.exitCode === undefined ? 0 : 2;
  }
  await runCommand(command, { config, environment, log, signal: terminationSignal(process, log) });
  return 0;
}

async function runCommand(
  command: Exclude<Command, 'version'>,
  {
    config,
    environment,
    log,
    signal,
  }: {
    readonly config: Config;
    readonly environment: NodeJS.ProcessEnv;
    readonly log: Logger;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const connection = await connect({ environment, kubeconfigPath: config.kubeconfig });
  const client = createClient(connection, { fieldManager, userAgent });
  const limitedSignal = AbortSignal.any([signal, AbortSignal.timeout(commandTimeoutMs)]);
  try {
    if (command === 'apply-crds')
      await applyCustomResourceDefinitions(client, kinds, { version, log, signal: limitedSignal });
    else if (command === 'delete-crds') await deleteCustomResourceDefinitions(client, kinds, log, limitedSignal);
    else {
      const { watchNamespaces: namespaces, namespace, helmRelease: name } = config;
      const release = name === undefined ? undefined : { name, namespace };
      await checkUninstall(client, kindsWithFinalizer, {
        namespaces,
        release,
        disabledReason: controllerDisabled,
        signal: limitedSignal,
      });
    }
  } finally {
    await client.close();
  }
}

/**
 * Writes to stdout and waits until the reader has all of it: the process exits with a long plan otherwise half sent. A
 * reader that has gone, such as `head`, ends the wait too, and does not change the exit code.
 */
async function print(text: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const ended = () => resolve();
  process.stdout.once('error', ended);
  process.stdout.write(text, ended);
  await promise;
}

function reportFailure(error: unknown): ExitCode {
  if (
    error instanceof ConfigError ||
    error instanceof ConnectionError ||
    error instanceof ExplainUsageError ||
    error instanceof PlanUsageError
  ) {
    process.stderr.write(`${printableLines(error.message)}\n`);
    return 2;
  }
  if (
    error instanceof StillNeededError ||
    error instanceof ExplainError ||
    error instanceof PlanError ||
    error instanceof CacheSyncError
  ) {
    process.stderr.write(`echoperator: ${printableLines(error.message)}\n`);
    return 1;
  }
  process.stderr.write(`${printableLines(error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`);
  return 1;
}

// Exits explicitly, because a hanging credential plugin (a child process), or a reconcile that is in flight when the
// Lease is lost, would keep the process alive.
process.exit(await main(process.argv.slice(2), process.env).catch(reportFailure));
