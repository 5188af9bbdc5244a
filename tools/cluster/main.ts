import { parseArgs } from 'node:util';
import { abortOnInterrupt, exitCodeOf } from '../abort-on-interrupt.ts';
import { PackagesError } from '../debian.ts';
import { BuildError } from '../programs/index.ts';
import { Cluster, ClusterError, UnsupportedMachineError, UsageError } from './index.ts';

const usage = `Usage: npm run cluster -- COMMAND [--name NAME]

Runs a real Kubernetes cluster on this machine, without Docker. Requires root on Linux.

Commands:
  up [--nodes N]      bring up the cluster with 1 to 5 nodes (default 2)
  down                remove the cluster and all its data
  kubeconfig          print the path of the cluster's kubeconfig
  load IMAGE.tar      load an image (docker-archive or OCI archive) on every node
  kill-node NODE      kill all processes of a node: node1, node2 …
  start-node NODE     start a killed node

Options:
  --name NAME         the cluster's name (default demo); several clusters can run at the same time
`;

type Arguments = { readonly name: string; readonly nodes: number; readonly operand: string | undefined };
type Command = (args: Arguments, signal: AbortSignal) => Promise<void>;

const commands: Readonly<Record<string, { readonly operand?: string; readonly run: Command }>> = {
  up: {
    run: async ({ name, nodes }, signal) => {
      const cluster = await Cluster.up({ name, nodes, signal });
      process.stdout.write(`export KUBECONFIG=${cluster.kubeconfigPath}\n`);
    },
  },
  down: { run: ({ name }, signal) => Cluster.down(name, signal) },
  kubeconfig: {
    run: async ({ name }) => {
      process.stdout.write(`${(await Cluster.find(name)).kubeconfigPath}\n`);
    },
  },
  load: { operand: 'IMAGE.tar', run: async ({ name, operand = '' }) => (await Cluster.find(name)).loadImage(operand) },
  'kill-node': { operand: 'NODE', run: async ({ name, operand = '' }) => (await Cluster.find(name)).killNode(operand) },
  'start-node': {
    operand: 'NODE',
    run: async ({ name, operand = '' }, signal) => (await Cluster.find(name)).startNode(operand, signal),
  },
};

function parse(argv: string[]): { readonly command: Command; readonly args: Arguments } | 'help' {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: {
      name: { type: 'string', default: 'demo' },
      nodes: { type: 'string', default: '2' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const [word, operand, ...rest] = positionals;
  if (values.help || word === undefined || word === 'help') return 'help';
  const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
  if (command === undefined)
    throw new UsageError(`COMMAND: got "${word}", takes one of ${Object.keys(commands).join(', ')}`);
  if ((command.operand === undefined) !== (operand === undefined) || rest.length > 0) {
    throw new UsageError(`${word}: got ${positionals.length - 1} operands, takes ${command.operand ?? 'none'}`);
  }
  if (!/^\d+$/.test(values.nodes)) throw new UsageError(`--nodes: got "${values.nodes}", takes 1 to 5`);
  return { command: command.run, args: { name: values.name, nodes: Number(values.nodes), operand } };
}

async function main(argv: string[], signal: AbortSignal): Promise<number> {
  try {
    const parsed = parse(argv);
    if (parsed === 'help') process.stdout.write(usage);
    else await parsed.command(parsed.args, signal);
    return 0;
  } catch (error) {
    return report(error, signal);
  }
}

/** Errors whose message is enough for the user, without a stack trace. */
const expected = [ClusterError, UnsupportedMachineError, PackagesError, BuildError];

function report(error: unknown, signal: AbortSignal): number {
  if (signal.aborted) {
    process.stderr.write('interrupted\n');
    return exitCodeOf(signal.reason as NodeJS.Signals);
  }
  const usageProblem = error instanceof UsageError || (error instanceof TypeError && 'code' in error);
  if (error instanceof Error && (usageProblem || expected.some((type) => error instanceof type))) {
    process.stderr.write(`${error.message}\n`);
    return usageProblem ? 2 : 1;
  }
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  return 1;
}

process.exitCode = await main(process.argv.slice(2), abortOnInterrupt());
