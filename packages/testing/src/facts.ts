import type { KubeObject } from '@echoperator/runtime';

/**
 * Values by path, normalized for comparison between runs. A value that differs between equal runs is {@link varying}.
 */
export type Facts = ReadonlyMap<string, unknown>;

const varying = Symbol('varying');

/** An object with its kind, because the items of a list lack the kind. */
export interface ListedObject {
  readonly kind: string;
  readonly object: KubeObject;
}

/** How {@link factsOf} makes objects of different runs comparable. */
export interface FactsOptions {
  readonly namespace: string;
  /** Replaces random parts of a name: `web-x7k2p` becomes `web-*`. */
  canonicalName(name: string): string;
  /** The members to skip, wherever they occur. */
  readonly omitted: readonly string[];
}

/** Returns the objects' values, with placeholders for uids, times, the namespace and random names. Skips garbage. */
export function factsOf(objects: readonly ListedObject[], options: FactsOptions): Facts {
  const { namespace, canonicalName, omitted } = options;
  const names = new Map(objects.map(({ kind, object }) => [object.metadata.uid, `${kind} ${object.metadata.name}`]));
  const canonical = (text: string): string =>
    canonicalName(text)
      .replaceAll(uidPattern, (uid) => `<uid of ${canonicalName(names.get(uid) ?? 'another object')}>`)
      .replaceAll(timePattern, '<time>')
      .replaceAll(namespace, '<namespace>');
  const documents = objects
    .filter(({ object }) => !isGarbage(object, names))
    .map(({ kind, object }) => {
      const id = `${kind} ${canonicalName(object.metadata.name)}`;
      const text = JSON.stringify(object, (key, value) => {
        if (omitted.includes(key)) return undefined;
        return typeof value === 'string' ? canonical(value) : value;
      });
      return { id, text };
    })
    .sort((one, other) => (one.id + one.text < other.id + other.text ? -1 : 1));
  const facts = new Map<string, unknown>();
  const ids = numbered(documents.map(({ id }) => id));
  for (const [index, { text }] of documents.entries()) addLeaves(facts, ids[index] ?? '', JSON.parse(text));
  return facts;
}

const uidPattern = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

const timePattern = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

/** Whether the garbage collector will delete the object because all of its owners are gone. */
const isGarbage = ({ metadata: { ownerReferences = [] } }: KubeObject, present: ReadonlyMap<string, string>): boolean =>
  ownerReferences.length > 0 && ownerReferences.every(({ uid }) => !present.has(uid));

/** Makes equal descriptions distinct: the second `create pods` becomes `create pods #2`. */
export function numbered(descriptions: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  return descriptions.map((description) => {
    const count = (counts.get(description) ?? 0) + 1;
    counts.set(description, count);
    return `${description} #${count}`;
  });
}

/** Adds each value of a document, with its path. */
export function addLeaves(facts: Map<string, unknown>, path: string, value: unknown): void {
  if (typeof value !== 'object' || value === null) {
    facts.set(path, value);
    return;
  }
  const entries = Object.entries(value);
  if (entries.length === 0) facts.set(path, Array.isArray(value) ? '[]' : '{}');
  for (const [key, each] of entries) addLeaves(facts, `${path}.${key}`, each);
}

/** Returns the facts that equal runs have in common. */
export function common(all: readonly Facts[]): Facts {
  const paths = new Set(all.flatMap((facts) => [...facts.keys()]));
  return new Map(
    [...paths].map((path) => {
      const values = new Set(all.map((facts) => facts.get(path)));
      return [path, values.size === 1 ? [...values][0] : varying];
    }),
  );
}

/** Returns the first difference; undefined if there is none. */
export function differenceOf(expected: Facts, actual: Facts): string | undefined {
  for (const path of new Set([...expected.keys(), ...actual.keys()])) {
    const [wanted, got] = [expected.get(path), actual.get(path)];
    if (wanted === varying || got === varying || wanted === got) continue;
    const [object] = /^.* #\d+(?=\.)/.exec(path) ?? [];
    const isIn = (facts: Facts): boolean => [...facts.keys()].some((each) => each.startsWith(`${object}.`));
    if (object !== undefined && !isIn(actual)) return `${object} is missing`;
    if (object !== undefined && !isIn(expected)) return `${object} exists, and does not in the undisturbed run`;
    return `${path} is ${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`;
  }
  return undefined;
}
