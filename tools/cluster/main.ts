import { parseArgs } from 'node:util';
import { PackagesError } from '../debian.ts';
import { exitCodeOf, interruption } from '../interruption.ts';
import { BuildError } from '../programs/index.ts';
import { Cluster, ClusterError, UnsupportedMachineError, UsageError } from './index.ts';

const usage = `Usage: npm run cluster -- COMMAND [--name NAME]

A real Kubernetes cluster on this machine, without Docker. Needs root on Linux.

Commands:
  up [--nodes N]      bring it up, with 1 to 5 nodes (default 2)
  down                remove every trace of it
  kubeconfig          print the path of its kubeconfig
  load IMAGE.tar      put an image (docker-archive or OCI archive) on every node
  kill-node NODE      cut a node's power: node1, node2 …
  start-node NODE     start it again

Options:
  --name NAME         which cluster (default demo); clusters of different names live side by side
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

/** What their messages say is all that a person needs. */
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

process.exitCode = await main(process.argv.slice(2), interruption());
