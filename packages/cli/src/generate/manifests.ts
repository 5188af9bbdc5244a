import type { customResourceDefinition, PolicyRule } from '@echoperator/runtime';
import { stringify } from 'yaml';

/** A rule, which may be limited to objects of some names. */
export type Rule = PolicyRule;

/** The first line of a generated YAML file. */
export const banner = (source: string, command: string): string =>
  `# Generated from ${source} by \`${command}\`: change it there.\n`;

/** A CustomResourceDefinition as {@link customResourceDefinition} builds it. */
export type Definition = ReturnType<typeof customResourceDefinition>;

/** Returns the name of a CustomResourceDefinition's file: `echos.mmontes.io.yaml`. */
export const definitionFileName = ({ metadata }: Definition): string => `${metadata.name}.yaml`;

/** Returns a CustomResourceDefinition as a YAML document, without aliases. */
export const definitionYaml = (definition: Definition): string =>
  `---\n${stringify(definition, { lineWidth: 110, aliasDuplicateObjects: false })}`;

/**
 * Returns rules as a YAML list for `rules:` of a Role or ClusterRole, sorted by API group and resource, with one line
 * per field.
 */
export const rulesYaml = (rules: readonly Rule[]): string =>
  [...rules]
    .sort((one, other) => compareTexts(sortKeyOf(one), sortKeyOf(other)))
    .map(ruleYaml)
    .join('');

const sortKeyOf = ({ apiGroups, resources, resourceNames = [], verbs }: Rule): string =>
  [apiGroups, resources, resourceNames, verbs].map((each) => each.join(',')).join(' ');

/** By code units, so that the order does not depend on the locale. */
const compareTexts = (one: string, other: string): number => (one < other ? -1 : Number(one > other));

/** JSON lists are valid YAML. */
const ruleYaml = ({ apiGroups, resources, resourceNames, verbs }: Rule): string =>
  Object.entries({ apiGroups, resources, ...(resourceNames && { resourceNames }), verbs })
    .map(([field, values], index) => `${index === 0 ? '- ' : '  '}${field}: [${values.map(quoted).join(', ')}]\n`)
    .join('');

const quoted = (value: string): string => JSON.stringify(value);

/**
 * Limits rules to objects of one name, as far as RBAC can: `create` has no name yet, and a list of all objects, which
 * the check of other operators' Leases needs, names none.
 */
export function limitedTo(name: string, rules: readonly Rule[]): readonly Rule[] {
  const isLimited = (verb: string): boolean => verb !== 'create' && verb !== 'list';
  return rules.flatMap((rule) => [
    { ...rule, verbs: rule.verbs.filter((verb) => !isLimited(verb)) },
    { ...rule, resourceNames: [name], verbs: rule.verbs.filter(isLimited) },
  ]);
}
