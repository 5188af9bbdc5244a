import { readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import {
  type CustomKind,
  customResourceDefinition,
  leasePermissions,
  type PolicyRule,
  permissions,
} from '@echoperator/runtime';
import { type Output, parsedArgs, type Subcommand, UsageError } from '../subcommand.ts';
import { type ControllersModule, loadControllers } from './controllers-module.ts';
import { type DescribedKind, kindPage, kindParts, pageFileName } from './kind-page.ts';
import { banner, definitionFileName, definitionYaml, limitedTo, rulesYaml } from './manifests.ts';
import { type ReasonRow, reasonRows } from './reasons-table.ts';
import { type Files, writeFiles } from './write-files.ts';

const command = 'echoperator-cli generate';

/** `echoperator-cli generate`: writes or checks the files that follow from the controllers of a module. */
export const generate: Subcommand = {
  usage: 'generate [MODULE] [--chart DIR] [--docs DIR] [--check]',
  run: async (args: readonly string[], output: Output): Promise<number> => {
    const { module, chart, docs, check } = optionsOf(args);
    const loaded = await loadControllers(module);
    // Never absolute, so that the files are the same on each machine.
    const source = relative('.', module).replaceAll(sep, '/');
    const [ofChart, pages] = [
      chart === undefined ? undefined : await chartFiles(chart, loaded, source),
      docs === undefined ? undefined : await pageFiles(docs, loaded),
    ];
    const files = {
      wanted: new Map([...(ofChart?.wanted ?? []), ...(pages?.wanted ?? [])]),
      present: new Map([...(ofChart?.present ?? []), ...(pages?.present ?? [])]),
    };
    return writeFiles('.', files, { check, command, output });
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
  const { values, positionals } = parsedArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      chart: { type: 'string' },
      docs: { type: 'string' },
      check: { type: 'boolean', default: false },
    },
  });
  const [module = 'src/controllers.ts', ...others] = positionals;
  if (others.length > 0) throw new UsageError(`one module is expected, got ${positionals.join(' and ')}`);
  const { chart, docs, check } = values;
  if (chart === undefined && docs === undefined) throw new UsageError('--chart DIR or --docs DIR is required');
  return { module, chart, docs, check };
}

interface WantedAndPresent {
  readonly wanted: Files;
  readonly present: Files;
}

/** The definitions and the rules in a chart's folder. A file that this command once generated counts as present. */
async function chartFiles(chart: string, module: ControllersModule, source: string): Promise<WantedAndPresent> {
  const [crds, files] = [join(chart, 'crds'), join(chart, 'files')];
  const { controllers, leaderElection, conversionService } = module;
  const first = banner(source, command);
  const definitions = kindsOf(module).map((kind) => customResourceDefinition(kind, { conversionService }));
  const ofLease = typeof leaderElection === 'string' ? limitedTo(leaderElection, leasePermissions) : leasePermissions;
  const wanted = new Map([
    ...definitions.map((each) => [join(crds, definitionFileName(each)), first + definitionYaml(each)] as const),
    [join(files, 'rules.yaml'), first + rulesYaml(permissions(controllers))],
    ...(leaderElection === false ? [] : [[join(files, 'lease-rules.yaml'), first + rulesYaml(ofLease)] as const]),
  ]);
  const present = new Map([...(await filesIn(crds)), ...(await filesIn(files))]);
  const isOurs = (path: string, content: string): boolean =>
    wanted.has(path) || content.split('\n', 1)[0]?.includes(` by \`${command}\``) === true;
  return { wanted, present: new Map([...present].filter(([path, content]) => isOurs(path, content))) };
}

/** The YAML files of a folder, by path. */
async function filesIn(folder: string): Promise<Files> {
  const names = await readdir(folder).catch(ifMissing([]));
  const paths = names.filter((name) => name.endsWith('.yaml')).map((name) => join(folder, name));
  return new Map(await Promise.all(paths.map(async (path) => [path, await readFile(path, 'utf8')] as const)));
}

async function pageFiles(docs: string, module: ControllersModule): Promise<WantedAndPresent> {
  const wanted = new Map<string, string>();
  const present = new Map<string, string>();
  for (const described of describedKinds(module)) {
    const path = join(docs, pageFileName(described.kind));
    const page = await readFile(path, 'utf8').catch(ifMissing(undefined));
    if (page !== undefined) present.set(path, page);
    wanted.set(path, kindPage(path, page, described.kind, { parts: kindParts(described), command }));
  }
  return { wanted, present };
}

const ifMissing =
  <T>(value: T) =>
  (error: NodeJS.ErrnoException): T => {
    if (error.code === 'ENOENT') return value;
    throw error;
  };

/** Every kind once, in the order of the controllers. */
const kindsOf = ({ controllers, kinds }: ControllersModule): readonly CustomKind[] => [
  ...new Map(
    [...controllers.map(({ kind }) => kind), ...kinds].map((kind) => [`${kind.plural}.${kind.group}`, kind]),
  ).values(),
];

/** Every kind once, with what all of its controllers report and may do. */
function describedKinds(module: ControllersModule): readonly DescribedKind[] {
  return kindsOf(module).map((kind) => {
    const ofKind = module.controllers.filter((each) => each.kind.group === kind.group && each.kind.kind === kind.kind);
    const rows = new Map<string, ReasonRow>(
      ofKind.flatMap(({ reasons }) => reasonRows(reasons)).map((row) => [row.reason, row]),
    );
    return { kind, reasons: [...rows.values()], permissions: permissionsOf(ofKind) };
  });
}

const permissionsOf = (controllers: ControllersModule['controllers']): readonly PolicyRule[] =>
  controllers.length === 0 ? [] : permissions(controllers);
