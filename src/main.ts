import { guardedKinds, kinds } from './api/index.ts';
import { applyCustomResourceDefinitions } from './apply-crds.ts';
import { checkUninstall, StillNeededError } from './check-uninstall.ts';
import { type Config, ConfigError, readConfig } from './config.ts';
import { openLog } from './log.ts';
import { fieldManager, run } from './runner.ts';
import { ConnectionError, connect, createClient } from './runtime/client/index.ts';
import type { Logger } from './runtime/index.ts';
import { LeadershipLostError } from './runtime/leader-election/index.ts';
import { untilTerminated } from './runtime/process/index.ts';

/** Set by the bundler to the package's version. */
declare const ECHOPERATOR_VERSION: string | undefined;

const version = typeof ECHOPERATOR_VERSION === 'string' ? ECHOPERATOR_VERSION : 'dev';
const userAgent = `echoperator/${version}`;

const usage = `Usage: echoperator [command]

Commands:
  (none)            run the operator; its settings come from the environment
  apply-crds        apply the CustomResourceDefinitions that this version carries, wait until they are served, and end
  check-uninstall   fail while there are objects whose deletion needs the operator, and list them
  version           print the version
`;

const commands = ['apply-crds', 'check-uninstall', 'version'] as const;
type Command = (typeof commands)[number];

/** How long a command may take: for apply-crds the API server needs seconds to serve a new kind. */
const commandTimeoutMs = 60_000;

/** What the process ends with: 0 done, 1 failed, 2 asked for something that can't be. */
type ExitCode = 0 | 1 | 2;

async function main(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<ExitCode> {
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
  const signal = untilTerminated(process, log);
  if (command === undefined) await run({ config, environment, log, signal, userAgent });
  else await perform(command, { config, environment, log, signal });
  return 0;
}

async function perform(
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
  const limited = AbortSignal.any([signal, AbortSignal.timeout(commandTimeoutMs)]);
  try {
    if (command === 'apply-crds') await applyCustomResourceDefinitions(client, kinds, log, limited);
    else await checkUninstall(client, guardedKinds, { namespaces: config.watchNamespaces, signal: limited });
  } finally {
    await client.close();
  }
}

function reportFailure(error: unknown): ExitCode {
  if (error instanceof ConfigError || error instanceof ConnectionError) {
    process.stderr.write(`${error.message}\n`);
    return 2;
  }
  if (error instanceof LeadershipLostError || error instanceof StillNeededError) {
    process.stderr.write(`echoperator: ${error.message}\n`);
    return 1;
  }
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return 1;
}

// By force: a credential plugin that hangs is a child, and would keep the process alive; so would a reconcile that is
// still under way when the Lease is lost.
process.exit(await main(process.argv.slice(2), process.env).catch(reportFailure));
