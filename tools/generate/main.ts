/**
 * Writes the generated files:
 *
 * - the kinds' CRDs in crds/ and in the chart, the rules of the chart's roles, what its values, its templates and its
 *   schema say of each kind, and the Grafana dashboards;
 * - the examples of the kinds, from their pages;
 * - the tables of kinds, reasons, settings, metrics and log lines in docs/ and in the chart's README;
 * - the pet store's protobuf code, Kubernetes' built-in kinds with their merge rules and defaults, and the report of
 *   the runtime's public API.
 *
 *   node tools/generate/main.ts           writes the files that differ
 *   node tools/generate/main.ts --check   writes nothing; fails and names the files that differ
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { banner, definitionFileName, definitionYaml, rulesYaml, writeFiles } from '@echoperator/cli';
import type { CustomKind, PolicyRule } from '@echoperator/runtime';
import { parse, stringify } from 'yaml';
import { definitionOf } from '../../src/commands/crds.ts';
import { disabledPermissions } from '../../src/kinds/shared/disabled-controller.ts';
import { controllerNames } from '../../src/kinds.ts';
import { controllers, kinds, kindsWithFinalizer } from '../../src/operator.ts';
import { exampleOf } from './file-names.ts';
import { apiReportFiles, apiReports } from './generate-api-report.ts';
import { builtInDefaults, builtInDefaultsFile } from './generate-built-in-defaults.ts';
import { builtInKinds, builtInKindsFile } from './generate-built-in-kinds.ts';
import { builtInTypes, builtInTypesFile } from './generate-built-in-types.ts';
import { dashboards, dashboardsFolder } from './generate-dashboards.ts';
import { exampleFiles } from './generate-examples.ts';
import { kindPageFiles, kindPages } from './generate-kind-pages.ts';
import { chartReadme, indexPage, kindsTables } from './generate-kinds.ts';
import { logLinesPage, logLinesTable } from './generate-log-lines.ts';
import { operationsPage, operationsTables } from './generate-operations.ts';
import { filesIn, wireFiles, wireFolder } from './generate-protobuf.ts';
import { chartValuesFile, hardenedValuesFile, withoutAggregation, withSwitches } from './generate-values.ts';

const root = join(import.meta.dirname, '../..');

/** Folders that contain only generated files. */
const crdFolders = ['crds', 'charts/echoperator/files/crds'];
const rulesFolder = 'charts/echoperator/files/rules';

/** The chart's default values for its templates, which Helm does not let read values.yaml. */
const chartDefaults = 'charts/echoperator/files/defaults.yaml';

/** The kinds for the chart's templates. */
const chartKinds = 'charts/echoperator/files/kinds.yaml';
const chartSchema = 'charts/echoperator/values.schema.json';

const command = 'make generate';

function crdFile(kind: CustomKind, version: string): [name: string, content: string] {
  const definition = definitionOf(kind, version);
  return [definitionFileName(definition), banner('src/kinds', command) + definitionYaml(definition)];
}

const rulesFile = (name: string, permissions: readonly PolicyRule[]): [path: string, content: string] => [
  `${rulesFolder}/${name}.yaml`,
  banner('src/kinds', command) + rulesYaml(permissions),
];

/** Returns the rules of each controller, and those that apply when it is switched off, by file path. */
function ruleFiles(): readonly [path: string, content: string][] {
  return Object.entries(controllers).flatMap(([name, { kind, permissions }]) => [
    rulesFile(name, permissions),
    rulesFile(`${name}.disabled`, disabledPermissions(kind)),
  ]);
}

const kindsFile = (): string =>
  banner('src/kinds.ts', command) +
  stringify(
    Object.entries(controllers).map(([controller, { kind }]) => ({
      controller,
      group: kind.group,
      plural: kind.plural,
      scale: kind.definition.scale !== undefined,
    })),
  );

/** A map of the schema with a line for each controller: its indent, and the schema of its values. */
const mapOfControllers = new RegExp(String.raw`(\n +)"${controllerNames[0]}": (\{[^{}]*\})(?:,\1"\w+": \2)*`, 'g');

/** The schema of the values, whose maps of controllers have each of them. */
const withControllers = (schema: string): string =>
  schema.replace(mapOfControllers, (_, indent, value) =>
    controllerNames.map((name) => `${indent}"${name}": ${value}`).join(','),
  );

/** Returns the content that each generated file must have, by path. */
async function expectedFiles(): Promise<ReadonlyMap<string, string>> {
  const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');
  const { version } = JSON.parse(await read('package.json')) as { readonly version: string };
  const values = withSwitches(await read(chartValuesFile));
  const files = kinds.map((kind) => crdFile(kind, version));
  const crds = crdFolders.flatMap((folder) => files.map(([name, content]) => [`${folder}/${name}`, content] as const));
  const listed = kindsWithFinalizer.map(({ kind }) => ({
    apiGroups: [kind.group],
    resources: [kind.plural],
    verbs: ['list'],
  }));
  return new Map([
    ...crds,
    ...ruleFiles(),
    rulesFile('uninstall', listed),
    [chartValuesFile, values],
    [hardenedValuesFile, withoutAggregation(await read(hardenedValuesFile))],
    [chartDefaults, banner('values.yaml', command) + stringify(parse(values))],
    [chartKinds, kindsFile()],
    [chartSchema, withControllers(await read(chartSchema))],
    ...(await kindPageFiles(root)),
    ...(await exampleFiles(root)),
    ...(await kindsTables(root, values)),
    await operationsTables(root),
    await logLinesTable(root),
    ...(await wireFiles()),
    [builtInTypesFile, await builtInTypes()],
    [builtInDefaultsFile, await builtInDefaults()],
    ...(await apiReports()),
    [builtInKindsFile, await builtInKinds()],
    ...dashboards(),
  ]);
}

/** Returns the current content of the generated files, by path. */
async function currentFiles(): Promise<ReadonlyMap<string, string>> {
  const found = new Map(await filesIn(join(root, wireFolder), wireFolder));
  const single = [builtInTypesFile, builtInDefaultsFile, builtInKindsFile, ...apiReportFiles];
  const examples = controllerNames.map(exampleOf);
  for (const file of [
    ...single,
    ...examples,
    chartValuesFile,
    hardenedValuesFile,
    chartDefaults,
    chartKinds,
    chartSchema,
  ]) {
    found.set(file, await readFile(join(root, file), 'utf8').catch(() => ''));
  }
  for (const page of [...kindPages, indexPage, chartReadme, operationsPage, logLinesPage])
    found.set(page, await readFile(join(root, page), 'utf8'));
  for (const folder of [...crdFolders, rulesFolder, dashboardsFolder]) {
    for (const name of await readdir(join(root, folder)).catch(() => [])) {
      found.set(`${folder}/${name}`, await readFile(join(root, folder, name), 'utf8'));
    }
  }
  return found;
}

const output = { out: console.log, error: console.error };
process.exitCode = await writeFiles(
  root,
  { wanted: await expectedFiles(), present: await currentFiles() },
  { check: process.argv.includes('--check'), command, output },
);
