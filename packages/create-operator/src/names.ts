/** Names that a user has chosen, or their defaults. */
export interface GivenNames {
  /** The path of the new folder. Its last part is the name of the operator. */
  readonly folder?: string | undefined;
  readonly kind?: string | undefined;
  readonly group?: string | undefined;
  readonly plural?: string | undefined;
}

/** The names of a new operator, all valid. */
export interface Names {
  /** The name of the npm package, the chart, the image, the Lease and the field manager. */
  readonly operator: string;
  /** In PascalCase. */
  readonly kind: string;
  readonly group: string;
  /** In lower case, as in the API's paths. */
  readonly plural: string;
}

/** A name or an argument is invalid. The message names the field and the value. */
export class InvalidNameError extends Error {
  override readonly name = 'InvalidNameError';
}

/** The default of each field. */
export const defaults = { folder: 'my-operator', kind: 'Greeting', group: 'example.com' } as const;

/** The names that the templates import. A kind of such a name would be declared twice. */
export const importedNames: readonly string[] = ['ApiServer', 'ConfigMap', 'ConnectedClient', 'Type'];

/**
 * Returns the names of an operator.
 *
 * @param operator the name of its folder
 * @throws InvalidNameError if a name is invalid
 */
export function namesOf(operator: string, { kind = defaults.kind, group = defaults.group, plural }: GivenNames): Names {
  // The name is a label of DNS, and Helm allows 53 characters for a release.
  check('folder', operator, {
    isValid: /^[a-z](?:[-a-z0-9]{0,51}[a-z0-9])?$/.test(operator),
    takes:
      'a name of at most 53 lowercase letters, digits and hyphens that begins with a letter and does not end with a hyphen',
  });
  check('kind', kind, {
    isValid: /^[A-Z][A-Za-z0-9]{0,62}$/.test(kind),
    takes: 'at most 63 letters and digits, of which the first is a capital letter, such as WebSite',
  });
  check('kind', kind, {
    isValid: !importedNames.includes(kind) && !(kind in globalThis) && kind !== 'Main',
    takes: 'a name that neither JavaScript nor the code of the operator uses',
  });
  check('group', group, {
    isValid:
      group.length <= 253 &&
      /^(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/.test(group),
    takes: 'a domain in lower case with at least one dot, such as example.com',
  });
  check('group', group, {
    isValid: !/(?:^|\.)(?:k8s|kubernetes)\.io$/.test(group),
    takes: 'a domain of your own: k8s.io and kubernetes.io belong to Kubernetes',
  });
  const names = { operator, kind, group, plural: plural ?? pluralOf(kind.toLowerCase()) };
  check('plural', names.plural, {
    isValid: /^[a-z][a-z0-9]{0,62}$/.test(names.plural),
    takes: 'at most 63 lowercase letters and digits, of which the first is a letter',
  });
  return names;
}

function check(
  field: string,
  value: string,
  { isValid, takes }: { readonly isValid: boolean; readonly takes: string },
): void {
  if (!isValid) throw new InvalidNameError(`${field}: got ${JSON.stringify(value)}, takes ${takes}`);
}

/** The regular plural of an English noun. */
function pluralOf(noun: string): string {
  if (/[^aeiou]y$/.test(noun)) return noun.replace(/y$/, 'ies');
  return /(?:s|x|z|ch|sh)$/.test(noun) ? `${noun}es` : `${noun}s`;
}

/** Splits a name in PascalCase into lowercase words: `HTTPRoute` has `http` and `route`. */
const wordsOf = (kind: string): readonly string[] =>
  kind
    .replaceAll(/([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])/g, '$1$3 $2')
    .toLowerCase()
    .split(' ');

/** What replaces each name of the templates. */
export function replacements({ operator, kind, group, plural }: Names): ReadonlyMap<string, string> {
  const words = wordsOf(kind);
  const [first = '', ...others] = words;
  const camelCase = first + others.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
  return new Map([
    ['sample-operator', operator],
    ['sample.example.com', group],
    ['SampleKind', kind],
    ['sampleKind', camelCase],
    ['samplekinds', plural],
    ['samplekind', kind.toLowerCase()],
    ['sample-kind', words.join('-')],
  ]);
}
