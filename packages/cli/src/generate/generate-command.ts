import { parseArgs } from 'node:util';
import { type Output, type Subcommand, UsageError } from '../subcommand.ts';

const usage = 'generate [MODULE] [--chart DIR] [--docs DIR] [--check]';

/** `echoperator-cli generate`: writes or checks the files that follow from the controllers of a module. */
export const generate: Subcommand = {
  usage,
  run: async (args: readonly string[], output: Output): Promise<number> => {
    const { module, chart, docs, check } = optionsOf(args);
    output.error(`not implemented: ${JSON.stringify({ module, chart, docs, check })}`);
    return 1;
  },
};

interface Options {
  readonly module: string;
  readonly chart: string | undefined;
  readonly docs: string | undefined;
  readonly check: boolean;
}

/** @throws UsageError for an unknown option, a second module, or neither `--chart` nor `--docs`. */
function optionsOf(args: readonly string[]): Options {
  const { values, positionals } = parsed(args);
  const [module = 'src/controllers.ts', ...others] = positionals;
  if (others.length > 0)
    throw new UsageError(`one module is expected, but the arguments name ${positionals.join(' and ')}`);
  const { chart, docs, check } = values;
  if (chart === undefined && docs === undefined) throw new UsageError('--chart DIR or --docs DIR is required');
  return { module, chart, docs, check };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        chart: { type: 'string' },
        docs: { type: 'string' },
        check: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
