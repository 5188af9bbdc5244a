import { type CustomKind, customResourceDefinition, type PolicyRule } from '@echoperator/runtime';
import { type FieldSchema, fieldsTable, rulesList, statusTable } from './fields-table.ts';
import { generatedPart, hasPart, replacePart } from './generated-part.ts';
import { cellCode, cellText, markdownTable } from './markdown-table.ts';
import { type ReasonRow, reasonsTable } from './reasons-table.ts';

/** What the page of a kind describes. */
export interface DescribedKind {
  readonly kind: CustomKind;
  /** The rows of the table of reasons. Empty for a kind without a controller. */
  readonly reasons: readonly ReasonRow[];
  /** The rules of the controllers of the kind. */
  readonly permissions: readonly PolicyRule[];
}

/** A generated part of the page of a kind. */
export type KindPart = 'description' | 'names' | 'spec' | 'status' | 'reasons' | 'columns' | 'permissions';

/** The heading of each part on a new page, in the order of the page. The first parts follow the title. */
const headings: Readonly<Record<KindPart, string | undefined>> = {
  description: undefined,
  names: undefined,
  spec: 'Spec',
  status: 'Status',
  reasons: 'Reasons',
  columns: 'Columns of kubectl get',
  permissions: 'Permissions of the controller',
};

const kindPartNames = Object.keys(headings) as readonly KindPart[];

/** Returns the file of a kind's page: `scheduled-echo.md` for ScheduledEcho, `http-route.md` for HTTPRoute. */
export const pageFileName = ({ kind }: Pick<CustomKind, 'kind'>): string =>
  `${kind.replaceAll(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, '-').toLowerCase()}.md`;

/**
 * Returns the generated parts of a kind's page as Markdown. A part that has nothing to say is absent: reasons and
 * permissions of a kind without a controller, columns of a kind that declares none.
 *
 * @throws NotStructuralError with the path of a schema that a CustomResourceDefinition cannot contain.
 */
export function kindParts({ kind, reasons, permissions }: DescribedKind): ReadonlyMap<KindPart, string> {
  const [version] = customResourceDefinition(kind, { isStoredVersionOnly: true }).spec.versions;
  const schema = (version?.schema?.openAPIV3Schema ?? {}) as FieldSchema;
  const { spec = {}, status = {} } = schema.properties ?? {};
  const parts: Readonly<Record<KindPart, string>> = {
    description: `${cellText(kind.definition.description)}\n`,
    names: namesTable(kind),
    spec: specTable(spec, schema),
    status: statusTable(status),
    reasons: reasons.length === 0 ? '' : reasonsTable(reasons),
    columns: columnsTable(kind),
    permissions: permissions.length === 0 ? '' : permissionsTable(permissions),
  };
  return new Map(kindPartNames.filter((name) => parts[name] !== '').map((name) => [name, parts[name]]));
}

/**
 * Returns a kind's page with its generated parts.
 *
 * @param path the file, for errors.
 * @param page the present content; undefined for a new page, which gets every part under a heading.
 * @param command what generates the parts, for the reader of a new page's source.
 * @throws Error for a page that has no part at all, or a part without its end.
 */
export function kindPage(
  path: string,
  page: string | undefined,
  { kind }: CustomKind,
  { parts, command }: { readonly parts: ReadonlyMap<KindPart, string>; readonly command: string },
): string {
  if (page === undefined) {
    const sections = [...parts].map(([name, content]) => {
      const heading = headings[name];
      return `${heading === undefined ? '' : `## ${heading}\n\n`}${generatedPart(name, content, command)}`;
    });
    return [`# ${kind}\n`, ...sections].join('\n');
  }
  const present = kindPartNames.filter((name) => hasPart(page, name));
  const [first] = kindPartNames;
  if (present.length === 0 && first !== undefined)
    throw new Error(
      `${path} has no generated part of the kind ${kind}. Delete the page, or add a part: ` +
        `${kindPartNames.join(', ')}. Each stands between such lines:\n${generatedPart(first, '', command)}`,
    );
  // A part that has become empty stays as an empty place, for when it is no longer empty.
  return present.reduce((text, name) => replacePart(path, text, name, parts.get(name) ?? ''), page);
}

function specTable(spec: FieldSchema, schema: FieldSchema): string {
  const rules = rulesList(spec) + rulesList(schema);
  return `${fieldsTable(spec)}${rules === '' ? '' : `\nRules of the whole object:\n\n${rules}`}`;
}

function namesTable({ group, version, plural, scope, definition }: CustomKind): string {
  const { shortNames = [], categories = [], scale } = definition;
  const codes = (values: readonly string[]): string => values.map((value) => `\`${value}\``).join(', ');
  const rows = [
    ['API version', `\`${group}/${version}\``],
    ['resource', `\`${plural}.${group}\``],
    ['short names', codes(shortNames)],
    ['categories', codes(categories)],
    ['scope', scope === 'Cluster' ? 'the cluster' : 'a namespace'],
    ['subresources', codes(scale === undefined ? ['status'] : ['status', 'scale'])],
  ].filter(([, value]) => value !== '');
  return markdownTable(['name', 'value'], rows);
}

function columnsTable({ definition: { printerColumns = [] } }: CustomKind): string {
  if (printerColumns.length === 0) return '';
  const rows = printerColumns.map(({ name, jsonPath, description = '', priority = 0 }) => [
    cellText(name),
    cellCode(jsonPath),
    [cellText(description), ...(priority > 0 ? ['Only with `--output wide`.'] : [])].join(' ').trim(),
  ]);
  return markdownTable(['column', 'shows', 'remark'], rows);
}

function permissionsTable(permissions: readonly PolicyRule[]): string {
  const rows = permissions.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.map((resource) => [`\`${qualified(resource, group)}\``, verbs.join(', ')])),
  );
  return markdownTable(['resource', 'verbs'], rows);
}

/** For example `pods`, or `echos.mmontes.io/status`. */
function qualified(resource: string, group: string): string {
  const [plural = '', ...subresource] = resource.split('/');
  return [group === '' ? plural : `${plural}.${group}`, ...subresource].join('/');
}
