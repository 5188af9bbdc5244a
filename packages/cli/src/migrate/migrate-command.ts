import { createClient, kubeconfigConnection } from '@echoperator/runtime/client';
import { type Output, parsedArgs, type Subcommand, UsageError } from '../subcommand.ts';
import { migrateStoredObjects } from './migrate-stored-objects.ts';

/** The rate of Kubernetes' own controllers: the default of `--kube-api-qps` of kube-controller-manager. */
const defaultPerSecond = '20';
const defaultSettleSeconds = '60';

/** `echoperator-cli migrate`: rewrites the stored objects of CustomResourceDefinitions in their stored versions. */
export const migrate: Subcommand = {
  usage: 'migrate PLURAL.GROUP ... [--context NAME] [--per-second N] [--settle-seconds N]',
  run: async (args: readonly string[], output: Output): Promise<number> => {
    const { names, context, perSecond, settleSeconds } = optionsOf(args);
    const connection = await kubeconfigConnection(undefined, process.env, context === undefined ? {} : { context });
    const client = createClient(connection, { fieldManager: 'echoperator-cli' });
    const options = { perSecond, settleMs: settleSeconds * 1000, report: (line: string) => output.error(line) };
    try {
      for (const name of names) await migrateStoredObjects(client, name, options);
    } finally {
      await client.close();
    }
    return 0;
  },
};

/** @throws UsageError for an unknown option, a value that is no number, or no name. */
function optionsOf(args: readonly string[]) {
  const { values, positionals: names } = parsedArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      context: { type: 'string' },
      'per-second': { type: 'string', default: defaultPerSecond },
      'settle-seconds': { type: 'string', default: defaultSettleSeconds },
    },
  });
  if (names.length === 0) throw new UsageError('the name of a CustomResourceDefinition is required: PLURAL.GROUP');
  const perSecond = Number(values['per-second']);
  if (!(perSecond > 0)) throw new UsageError(`--per-second ${values['per-second']} is not a number above 0`);
  const settleSeconds = Number(values['settle-seconds']);
  if (!(settleSeconds >= 0))
    throw new UsageError(`--settle-seconds ${values['settle-seconds']} is not a number of at least 0`);
  return { names, context: values.context, perSecond, settleSeconds };
}
