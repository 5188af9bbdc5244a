import { readFile } from 'node:fs/promises';
import { createClient, kubeconfigConnection, listPages } from '@echoperator/runtime/client';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { writeFiles } from '../generate/write-files.ts';
import { type Output, parsedArgs, type Subcommand, UsageError } from '../subcommand.ts';
import { type ImportedDefinition, kindOf, readDefinitions } from './definitions.ts';
import { kindsModule } from './kinds-module.ts';

/** `echoperator-cli kinds`: writes a module with the kinds of CustomResourceDefinitions. */
export const kinds: Subcommand = {
  usage: 'kinds (--crd FILE ... | --context NAME) [--name PLURAL.GROUP ...] [--version VERSION] --out FILE',
  run: async (args: readonly string[], output: Output): Promise<number> => {
    const { crd, context, name: names, version, out } = optionsOf(args);
    const all =
      context === undefined
        ? (await Promise.all(crd.map(async (file) => readDefinitions(await readFile(file, 'utf8'), file)))).flat()
        : await definitionsOfCluster(context);
    const nameOf = ({ spec }: ImportedDefinition): string => `${spec?.names?.plural}.${spec?.group}`;
    const missing = names.find((name) => !all.some((each) => nameOf(each) === name));
    if (missing !== undefined) throw new Error(`there is no CustomResourceDefinition ${missing}`);
    const chosen = names.length === 0 ? all : all.filter((each) => names.includes(nameOf(each)));
    const source = await kindsModule(chosen.map((each) => kindOf(each, version)));
    const files = { wanted: new Map([[out, source]]), present: new Map<string, string>() };
    return writeFiles('.', files, { check: false, command: 'echoperator-cli kinds', output });
  },
};

/** Reads the definitions that the API server of a kubeconfig's context has. */
async function definitionsOfCluster(context: string): Promise<readonly ImportedDefinition[]> {
  const connection = await kubeconfigConnection(undefined, process.env, { context });
  const client = createClient(connection, { fieldManager: 'echoperator-cli' });
  try {
    const all: ImportedDefinition[] = [];
    for await (const { items } of listPages(client, CustomResourceDefinition)) all.push(...items);
    return all;
  } finally {
    await client.close();
  }
}

/** @throws UsageError for options that do not fit together. */
function optionsOf(args: readonly string[]) {
  const { crd, context, name, version, out } = parsedArgs({
    args: [...args],
    options: {
      crd: { type: 'string', multiple: true, default: [] },
      context: { type: 'string' },
      name: { type: 'string', multiple: true, default: [] },
      version: { type: 'string' },
      out: { type: 'string' },
    },
  }).values;
  if ((crd.length === 0) === (context === undefined))
    throw new UsageError('either --crd FILE or --context NAME is required');
  if (out === undefined) throw new UsageError('--out FILE is required');
  return { crd, context, name, version, out };
}
