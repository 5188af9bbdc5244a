/**
 * Writes what is generated from the code: the kinds' CRDs, in crds/ and in the chart, the rules of the chart's roles from
 * what each controller declares, the tables of reasons in docs/, the code of the pet store's wire from its proto files,
 * the merge rules of Kubernetes' own kinds from its Go modules, and the report of the runtime's public API.
 *
 *   node tools/generate/main.ts           writes
 *   node tools/generate/main.ts --check   writes nothing; fails and names the files that differ
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { guardedKinds, kinds } from '../../src/api/index.ts';
import type { PolicyRule } from '../../src/controllers/index.ts';
import { controllers } from '../../src/operator.ts';
import { type CustomKind, customResourceDefinition } from '../../src/runtime/index.ts';
import { apiReport, apiReportFile } from './generate-api-report.ts';
import { builtInTypes, builtInTypesFile } from './generate-built-in-types.ts';
import { filesIn, wireFiles, wireFolder } from './generate-protobuf.ts';
import { reasonPages, reasonTables } from './generate-reasons.ts';

const root = join(import.meta.dirname, '../..');

/** Folders that hold generated files and nothing else. */
const crdFolders = ['crds', 'charts/echoperator/crds'];
const rulesFolder = 'charts/echoperator/files/rules';

const banner = (source: string): string => `# Generated from ${source} by \`make generate\`: change it there.\n`;

function crdFile(kind: CustomKind): [name: string, content: string] {
  const content = stringify(customResourceDefinition(kind), { lineWidth: 110, aliasDuplicateObjects: false });
  return [`${kind.group}_${kind.plural}.yaml`, `---\n${banner('src/api')}${content}`];
}

/** A line a list, as roles are written by hand; JSON is YAML too. */
const ruleText = (rule: PolicyRule): string =>
  Object.entries(rule)
    .map(
      ([field, values], index) =>
        `${index === 0 ? '- ' : '  '}${field}: ${JSON.stringify(values).replaceAll(',', ', ')}\n`,
    )
    .join('');

const rulesFile = (name: string, permissions: readonly PolicyRule[]): [path: string, content: string] => [
  `${rulesFolder}/${name}.yaml`,
  banner('src/controllers') + permissions.map(ruleText).join(''),
];

/** The rules of each controller, and of what takes its place where it is switched off, by the file's path. */
function ruleFiles(): readonly [path: string, content: string][] {
  return Object.entries(controllers).flatMap(([name, { permissions, disabled }]) => [
    rulesFile(name, permissions),
    ...(disabled === undefined ? [] : [rulesFile(`${name}.disabled`, disabled.permissions)]),
  ]);
}

/** Every generated file by its path. */
async function wanted(): Promise<ReadonlyMap<string, string>> {
  const files = kinds.map(crdFile);
  const crds = crdFolders.flatMap((folder) => files.map(([name, content]) => [`${folder}/${name}`, content] as const));
  const listed = guardedKinds.map(({ kind }) => ({
    apiGroups: [kind.group],
    resources: [kind.plural],
    verbs: ['list'],
  }));
  return new Map([
    ...crds,
    ...ruleFiles(),
    rulesFile('uninstall', listed),
    ...(await reasonTables(root)),
    ...(await wireFiles()),
    [builtInTypesFile, await builtInTypes()],
    [apiReportFile, await apiReport(root)],
  ]);
}

/** What the folders hold now by its path. */
async function present(): Promise<ReadonlyMap<string, string>> {
  const found = new Map(await filesIn(join(root, wireFolder), wireFolder));
  found.set(builtInTypesFile, await readFile(join(root, builtInTypesFile), 'utf8').catch(() => ''));
  found.set(apiReportFile, await readFile(join(root, apiReportFile), 'utf8').catch(() => ''));
  for (const page of reasonPages) found.set(page, await readFile(join(root, page), 'utf8'));
  for (const folder of [...crdFolders, rulesFolder]) {
    for (const name of await readdir(join(root, folder)).catch(() => [])) {
      found.set(`${folder}/${name}`, await readFile(join(root, folder, name), 'utf8'));
    }
  }
  return found;
}

async function generate(check: boolean): Promise<number> {
  const [want, have] = [await wanted(), await present()];
  const paths = [...new Set([...want.keys(), ...have.keys()])].filter((path) => want.get(path) !== have.get(path));
  if (check) {
    for (const path of paths) console.error(`${path} is not what src says: run \`make generate\``);
    return paths.length === 0 ? 0 : 1;
  }
  for (const path of paths) {
    const content = want.get(path);
    console.log(`${content === undefined ? 'removed' : 'written'} ${path}`);
    if (content === undefined) await rm(join(root, path));
    else await mkdir(join(root, path, '..'), { recursive: true }).then(() => writeFile(join(root, path), content));
  }
  return 0;
}

process.exitCode = await generate(process.argv.includes('--check'));
