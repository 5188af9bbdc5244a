import { requirementsOf } from '../kind/kind.ts';

/** Whether labels (or fields, for a field selector) match. `read` returns the value of a key, or undefined. */
export type Selector = (read: (key: string) => string | undefined) => boolean;

/**
 * Parses a label selector as the API server does (k8s.io/apimachinery/pkg/labels): `a=b,c!=d,e in (f,g),h notin
 * (i),j,!k`. `!=` and `notin` match if the key is missing. Returns undefined for a selector that it cannot parse.
 */
export function parseLabelSelector(text: string): Selector | undefined {
  return all(requirementsOf(text), parseRequirement);
}

/**
 * Parses a field selector (k8s.io/apimachinery/pkg/fields), such as `metadata.name=a`. Supports only the fields that
 * mean the same for each kind. Each kind's server defines the others: `spec.unschedulable=false` also matches a Node
 * without that field. Returns undefined for a selector that it cannot parse.
 */
export function parseFieldSelector(text: string): Selector | undefined {
  return all(text.split(','), (requirement) => {
    // A backslash escapes commas and equals signs. Names and phases contain neither, so escapes are not parsed.
    const [, key, operator, value] = /^\s*([^=!\\]+?)\s*(!=|==?)\s*([^\\]*?)\s*$/.exec(requirement) ?? [];
    if ((key !== 'metadata.name' && key !== 'metadata.namespace') || value === undefined) return undefined;
    return (read) => ((read(key) ?? '') === value) === (operator !== '!=');
  });
}

function all(
  requirements: readonly string[],
  parse: (requirement: string) => Selector | undefined,
): Selector | undefined {
  const selectors = requirements.filter((requirement) => requirement.trim() !== '').map(parse);
  if (selectors.includes(undefined)) return undefined;
  return (read) => selectors.every((selector) => selector?.(read));
}

function parseRequirement(requirement: string): Selector | undefined {
  const [, not, key = '', rest = ''] = /^\s*(!?)\s*([A-Za-z0-9._/-]+)\s*(.*?)\s*$/.exec(requirement) ?? [];
  if (key === '') return undefined;
  if (rest === '') return (read) => (read(key) === undefined) === (not === '!');
  if (not !== '') return undefined;
  const [, set, inside] = /^(in|notin)\s*\(([^()]*)\)$/.exec(rest) ?? [];
  if (inside !== undefined) {
    const values = inside.split(',').map((value) => value.trim());
    return (read) => values.includes(read(key) ?? missing) === (set === 'in');
  }
  const [, operator, value] = /^(!=|==?)\s*([A-Za-z0-9._-]*)$/.exec(rest) ?? [];
  if (value === undefined) return undefined;
  return (read) => (read(key) === value) === (operator !== '!=');
}

/** Stands for a missing label in set requirements. A label value cannot be a space, so it is a member of no set. */
const missing = ' ';
