import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { markdownTable, replacePart } from '@echoperator/cli';
import { type ControllerName, controllerNames, kindEntries } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { pageOf } from './file-names.ts';
import { documentedValues, valuesTable } from './values-table.ts';

/** The page with the table of all kinds. */
export const indexPage = 'docs/index.md';

/**
 * Its generated parts: the kinds, the command that deletes their definitions, the permissions of their controllers, and
 * the values.
 */
export const chartReadme = 'charts/echoperator/README.md';

/**
 * Returns both pages with their tables.
 *
 * @param values the content of the chart's values.yaml.
 * @throws Error if a page lacks the comments around a table, or a value of the chart has no comment.
 */
export async function kindsTables(
  root: string,
  values: string,
): Promise<readonly (readonly [path: string, content: string])[]> {
  const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');
  const tables = {
    kinds: kindsOfChart(),
    deletion: deletionOfDefinitions(),
    permissions: permissionsTable(),
    values: valuesTable(documentedValues(values)),
  };
  return [
    [indexPage, replacePart(indexPage, await read(indexPage), 'kinds', kindsTable())],
    [
      chartReadme,
      Object.entries(tables).reduce(
        (text, [name, table]) => replacePart(chartReadme, text, name, table),
        await read(chartReadme),
      ),
    ],
  ];
}

/** The first sentence of the description in the CustomResourceDefinition, which `kubectl explain` prints too. */
const summaryOf = (name: ControllerName): string =>
  controllers[name].kind.definition.description?.replace(/(?<=\.) .*/s, '') ?? '';

const kindsTable = (): string =>
  markdownTable(
    ['kind', 'API group', 'short name', 'what it does'],
    controllerNames.map((name) => {
      const { kind, group, definition } = controllers[name].kind;
      const shortNames = (definition.shortNames ?? []).map((each) => `\`${each}\``).join(', ');
      return [`[${kind}](${pageOf(name).replace('docs/', '')})`, `\`${group}\``, shortNames, summaryOf(name)];
    }),
  );

const kindsOfChart = (): string =>
  markdownTable(
    ['kind', 'controller', 'by default', 'what it does'],
    controllerNames.map((name) => [
      `\`${controllers[name].kind.kind}\``,
      `\`${name}\``,
      kindEntries[name].runsByDefault ? 'on' : 'off',
      summaryOf(name),
    ]),
  );

/** Returns a code block with the command that deletes every definition. */
const deletionOfDefinitions = (): string => {
  const definitions = controllerNames.map((name) => `${controllers[name].kind.plural}.${controllers[name].kind.group}`);
  return `${['    kubectl delete customresourcedefinition', ...definitions].join(' \\\n      ')}\n`;
};

/** What every controller may do with the objects of its kind. */
const common: Readonly<Record<string, readonly string[]>> = {
  '': ['get', 'list', 'watch'],
  '/status': ['patch'],
  '/finalizers': ['update'],
};

const permissionsTable = (): string =>
  markdownTable(
    ['controller', 'further permissions'],
    controllerNames.map((name) => {
      const { kind, permissions } = controllers[name];
      const further = permissions.flatMap(({ resources, verbs }) =>
        resources.flatMap((resource) => {
          const usual = resource.startsWith(kind.plural) ? (common[resource.slice(kind.plural.length)] ?? []) : [];
          const rest = verbs.filter((verb) => !usual.includes(verb));
          return rest.length === 0 ? [] : [`\`${resource}\`: ${rest.join(', ')}`];
        }),
      );
      return [`\`${name}\``, further.join('; ')];
    }),
  );
