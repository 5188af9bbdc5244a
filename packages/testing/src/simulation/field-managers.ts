/**
 * Tracks which manager owns which fields (`metadata.managedFields`), and merges as server-side apply does. Sources:
 * sigs.k8s.io/structured-merge-diff and k8s.io/apimachinery/pkg/util/managedfields. Pure: no function changes its
 * arguments, and the results share parts with them.
 *
 * The server calls {@link trackFields} or {@link applyFields}, then its strategy, then {@link keepTimesIfUnchanged}.
 * That comparison must precede any removal of empty lists and maps from the metadata: an apply of `labels: {}` to a
 * custom object creates a new version each time.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  fieldSchema,
  granular,
  isObject,
  type JsonObject,
  type ListKey,
  resolve,
  type Schema,
} from '@echoperator/runtime/internal';
import {
  badRequest,
  type FieldsV1,
  type ManagedFieldsEntry,
  NotSimulatedError,
  RefusedError,
  type StoredObject,
} from './strategy.ts';

/** The properties of a write, other than the objects. */
export interface FieldWrite {
  /** The field manager. An empty one is `unknown`. */
  readonly manager: string;
  readonly apiVersion: string;
  readonly subresource?: string | undefined;
  readonly schema: Schema;
  /**
   * Fields that the strategy resets in this write, with everything below them. They get no owner. `{ 'f:status': {} }`
   */
  readonly resetFields?: FieldsV1;
  /** The time of the request: RFC 3339, in seconds. */
  readonly timeIso: string;
  /** The other versions of the kind, in which managers may have set fields. By `apiVersion`. */
  readonly otherVersions?: ReadonlyMap<
    string,
    { readonly schema: Schema; readonly convert: (object: StoredObject) => StoredObject }
  >;
}

/** The reset fields of a custom kind with a status subresource (customresource/strategy.go and status_strategy.go). */
export const customResetFields = (subresource: 'status' | undefined): FieldsV1 =>
  subresource === undefined ? { 'f:status': {} } : { 'f:metadata': {}, 'f:spec': {} };

/**
 * Merges an applied configuration into the stored object. Removes the fields that its manager has applied before, does
 * not apply any more, and no other manager owns. The result has no defaults yet.
 *
 * The result can have nulls, which decoding drops or refuses. They occur where a removal has emptied an object or a
 * list, and where Go's JSON of a new object has them (`spec.selector` of a Deployment).
 *
 * @param write.live the stored object, undefined if there is none
 * @throws {@link RefusedError} Conflict, if another manager owns a field that would change and `force` is false
 * @throws {@link NotSimulatedError} for duplicates in a set or keyed list, unknown merge rules, and fields of another
 *   API version
 */
export function applyFields(
  write: FieldWrite & {
    readonly live: StoredObject | undefined;
    readonly applied: StoredObject;
    readonly force: boolean;
  },
): StoredObject {
  const { live, applied, force, schema, timeIso } = write;
  if (applied.metadata.managedFields !== undefined) throw badRequest('metadata.managedFields must be nil');
  if (write.manager === 'kubectl' && live?.metadata.annotations?.[lastApplied] !== undefined) {
    throw new NotSimulatedError(`an apply by kubectl of an object with the annotation ${lastApplied}`);
  }
  const managers = readManagers(live?.metadata.managedFields, write);
  const before = live === undefined ? emptyObject(applied, schema) : withManagers(live, new Map());
  if (live !== undefined && managers.size === 0) {
    const created = { ...write, manager: 'before-first-apply' };
    track(managers, created, emptyObject(live, schema), before);
  }
  const { key, entry } = ownEntry(write, 'Apply');
  const last = managers.get(key);
  const own = withoutSubtrees(fieldsOf(applied, schema), parseFields(write.resetFields ?? {}));
  managers.set(key, { entry, time: last?.time, fields: own });
  const merged = merge(before, applied, schema);
  const isDropping = last !== undefined && !isEmpty(difference(last.fields, own));
  const versions = new Set([...managers.values(), ...(last ? [last] : [])].map((each) => each.entry.apiVersion));
  if (last !== undefined && versions.size > 1)
    throw new NotSimulatedError('a second apply to an object with managed fields of several versions');
  const after = isDropping ? prune(merged, last.fields, managers.values(), schema) : merged;
  const others = [...managers].filter(([other]) => other !== key);
  const changesIn = changesByVersion(before, after as StoredObject, write);
  const conflicts = others.flatMap(([other, each]) =>
    conflictsWith(other, intersection(each.fields, changesIn(each.entry.apiVersion).set)),
  );
  if (conflicts.length > 0 && !force) throw conflictError(conflicts);
  dropChanged(managers, key, changesIn);
  setFields(managers, key, {
    entry,
    time: before === after || isDeepStrictEqual(before, after) ? last?.time : timeIso,
    fields: difference(own, neverOwned),
  });
  return withManagers(after as StoredObject, managers);
}

/**
 * Returns `after` with the managers of its fields, after a create, an update or a patch other than an apply. The
 * write's manager owns the fields that the write has changed. No manager owns the fields that it has removed.
 *
 * @param write.before the stored object, undefined for a create
 * @param write.after the object with defaults, before its strategy prepares it: fields that the strategy sets have no
 *   owner. An empty `managedFields`, or one empty entry, resets the managers; then updates are not tracked until the
 *   next apply. (Decoding a custom object drops an empty list, so only the empty entry resets its fields.)
 * @throws {@link NotSimulatedError} for duplicates in a set or keyed list, unknown merge rules, fields of another API
 *   version, and more than ten managers of updates, which the API server would combine
 */
export function trackFields(
  write: FieldWrite & { readonly before: StoredObject | undefined; readonly after: StoredObject },
): StoredObject {
  const { before, after, schema, subresource } = write;
  const sent = subresource === undefined ? after.metadata.managedFields : undefined;
  const isSet = sent !== undefined && sent.length > 0;
  const isReset = sent?.every((entry) => Object.keys(entry).length === 0) === true && sent.length < 2;
  const managers = readManagers(isReset ? [] : isSet ? sent : before?.metadata.managedFields, write);
  const object = withManagers(after, new Map());
  if (before !== undefined && managers.size === 0) return object;
  const old = before === undefined ? emptyObject(after, schema) : withManagers(before, new Map());
  track(managers, write, old, object);
  if ([...managers.values()].filter(({ entry }) => entry.operation === 'Update').length > 10) {
    throw new NotSimulatedError('more than ten managers of updates, which the API server combines to ancient-changes');
  }
  return withManagers(object, managers);
}

/** Returns `after` with the times of `before` if the managed fields differ only in times and the rest is equal. */
export function keepTimesIfUnchanged(before: StoredObject, after: StoredObject): StoredObject {
  const [old = [], entries = []] = [before.metadata.managedFields, after.metadata.managedFields];
  if (old.length !== entries.length || old.length === 0) return after;
  const withOldTimes = entries.map((entry, index) => withTime(entry, old[index]?.time));
  if (!isDeepStrictEqual(withOldTimes, old)) return after;
  const candidate = { ...after, metadata: { ...after.metadata, managedFields: old } };
  return isDeepStrictEqual(candidate, before) ? candidate : after;
}

/**
 * The annotation of kubectl's client-side apply. For the manager `kubectl`, the API server uses it to rule out
 * conflicts, and updates it.
 */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/** Gives the changed fields to the manager of an update. */
function track(managers: Managers, write: FieldWrite, before: StoredObject, after: StoredObject): void {
  const changesIn = changesByVersion(before, after, write);
  dropChanged(managers, undefined, changesIn);
  const { key, entry } = ownEntry(write, 'Update');
  const own = difference(changesIn(write.apiVersion).set, neverOwned);
  if (isEmpty(own)) return;
  const previous = managers.get(key)?.fields ?? noFields();
  setFields(managers, key, { entry, time: write.timeIso, fields: union(previous, own) });
}

// Managers

interface Manager {
  readonly entry: Pick<ManagedFieldsEntry, 'manager' | 'operation' | 'apiVersion' | 'subresource'>;
  readonly time: string | undefined;
  readonly fields: Fields;
}

/** By the key of {@link ownEntry}. A manager without fields is dropped. */
type Managers = Map<string, Manager>;

function ownEntry(
  { manager, apiVersion, subresource }: Pick<FieldWrite, 'manager' | 'apiVersion' | 'subresource'>,
  operation: ManagedFieldsEntry['operation'],
): Pick<Manager, 'entry'> & { readonly key: string } {
  const entry = { manager: manager || 'unknown', operation, apiVersion, ...(subresource && { subresource }) };
  // An applier keeps its entry when it changes to another API version.
  const key = JSON.stringify({ ...entry, apiVersion: operation === 'Apply' ? undefined : apiVersion });
  return { key, entry };
}

function readManagers(
  entries: readonly ManagedFieldsEntry[] = [],
  { apiVersion, otherVersions }: Pick<FieldWrite, 'apiVersion' | 'otherVersions'>,
): Managers {
  const managers: Managers = new Map();
  for (const each of entries) {
    const isKnown = each.fieldsType === 'FieldsV1' && ['Apply', 'Update'].includes(each.operation);
    if (!isKnown || (each.apiVersion !== apiVersion && !otherVersions?.has(each.apiVersion))) {
      throw new NotSimulatedError(
        `the managed fields of ${each.manager}: ${each.operation} ${each.apiVersion} ${each.fieldsType}, ` +
          `expected fields of ${apiVersion}`,
      );
    }
    const { key, entry } = ownEntry(each, each.operation);
    managers.set(key, { entry, time: each.time, fields: parseFields(each.fieldsV1) });
  }
  return managers;
}

function withManagers(object: StoredObject, managers: Managers): StoredObject {
  const { managedFields: _, ...metadata } = object.metadata;
  if (managers.size === 0) return { ...object, metadata };
  const entries = [...managers.values()].map(({ entry, time, fields }): ManagedFieldsEntry => {
    const { subresource, ...rest } = entry;
    const fieldsV1 = formatFields(fields);
    return withTime({ ...rest, fieldsType: 'FieldsV1', fieldsV1, ...(subresource && { subresource }) }, time);
  });
  const orderOf = ({ operation, time = '', manager, apiVersion, subresource = '' }: ManagedFieldsEntry) =>
    [operation, time, manager, apiVersion, subresource].join('\0');
  entries.sort((a, b) => compareText(orderOf(a), orderOf(b)));
  return { ...object, metadata: { ...metadata, managedFields: entries } };
}

function withTime({ time: _, ...entry }: ManagedFieldsEntry, time: string | undefined): ManagedFieldsEntry {
  return time === undefined ? entry : { ...entry, time };
}

function setFields(managers: Managers, key: string, manager: Manager): void {
  if (isEmpty(manager.fields)) managers.delete(key);
  else managers.set(key, manager);
}

/** Removes changed and removed fields from all managers but one. */
function dropChanged(managers: Managers, except: string | undefined, changesIn: (apiVersion: string) => Changes): void {
  for (const [key, manager] of [...managers]) {
    if (key === except) continue;
    const { set, removed } = changesIn(manager.entry.apiVersion);
    const lost = union(set, removed);
    if (!isEmpty(lost)) setFields(managers, key, { ...manager, fields: difference(manager.fields, lost) });
  }
}

interface Conflict {
  readonly manager: string;
  readonly path: string;
}

/** Sorted by manager and path, to the extent that the API server sorts them. */
function conflictsWith(key: string, fields: Fields): readonly Conflict[] {
  const { manager, operation, apiVersion, subresource } = JSON.parse(key) as Manager['entry'];
  const name = JSON.stringify(manager) + (subresource ? ` with subresource ${JSON.stringify(subresource)}` : '');
  const using = operation === 'Update' ? ` using ${apiVersion}` : '';
  return pathsIn(fields).map((path) => ({ manager: name + using, path }));
}

function conflictError(unsorted: readonly Conflict[]): RefusedError {
  const conflicts = unsorted.toSorted((one, other) =>
    one.manager < other.manager ? -1 : one.manager > other.manager ? 1 : 0,
  );
  const lines = [...Map.groupBy(conflicts, ({ manager }) => manager)].flatMap(([manager, all]) => [
    `conflicts with ${manager}:`,
    ...all.map(({ path }) => `- ${path}`),
  ]);
  const [first] = conflicts;
  const which =
    conflicts.length === 1
      ? `1 conflict: conflict with ${first?.manager}: ${first?.path}`
      : `${conflicts.length} conflicts: ${lines.join('\n')}`;
  const causes = conflicts.map(({ manager, path: field }) => {
    return { reason: 'FieldManagerConflict', message: `conflict with ${manager}`, field };
  });
  const message = `Apply failed with ${which}`;
  return new RefusedError({ code: 409, reason: 'Conflict', message, details: { causes } });
}

// Sets of fields

/**
 * A set of fields as a tree. Sets share parts of their trees. The steps are those of {@link FieldsV1}, without the dot.
 */
interface Fields {
  /** Whether the field itself is in the set, not only fields below it. */
  isMember: boolean;
  readonly below: Map<string, Fields>;
}

const noFields = (): Fields => ({ isMember: false, below: new Map() });
const isEmpty = ({ isMember, below }: Fields): boolean => !isMember && below.size === 0;

function parseFields(fields: FieldsV1): Fields {
  const parsed = noFields();
  for (const step of Object.keys(fields)) {
    if (step === '.') continue;
    const nested = parseFields(fields[step] ?? {});
    nested.isMember = nested.below.size === 0 || fields[step]?.['.'] !== undefined;
    parsed.below.set(step, nested);
  }
  return parsed;
}

function formatFields({ isMember, below }: Fields): FieldsV1 {
  const formatted: Record<string, FieldsV1> = isMember && below.size > 0 ? { '.': {} } : {};
  for (const [step, nested] of below) formatted[step] = formatFields(nested);
  return formatted;
}

const serverFields =
  'name namespace creationTimestamp selfLink uid clusterName generation managedFields resourceVersion';

/** No manager owns these fields (managedfields/internal/stripmeta.go). */
const neverOwned = parseFields({
  'f:apiVersion': {},
  'f:kind': {},
  'f:metadata': { '.': {}, ...Object.fromEntries(serverFields.split(' ').map((name) => [`f:${name}`, {}])) },
});

function combine(a: Fields, b: Fields, isKept: (isInA: boolean, isInB: boolean) => boolean): Fields {
  const result = { isMember: isKept(a.isMember, b.isMember), below: new Map<string, Fields>() };
  for (const [step, nested] of a.below) {
    const other = b.below.get(step);
    const kept = other !== undefined ? combine(nested, other, isKept) : isKept(true, false) ? nested : undefined;
    if (kept !== undefined && !isEmpty(kept)) result.below.set(step, kept);
  }
  if (isKept(false, true)) for (const [step, nested] of b.below) if (!a.below.has(step)) result.below.set(step, nested);
  return result;
}

const union = (a: Fields, b: Fields): Fields => combine(a, b, (inA, inB) => inA || inB);
const intersection = (a: Fields, b: Fields): Fields => combine(a, b, (inA, inB) => inA && inB);
const difference = (a: Fields, b: Fields): Fields => combine(a, b, (inA, inB) => inA && !inB);

/** Returns the fields without the members of `excluded` and everything below them. */
function withoutSubtrees({ isMember, below }: Fields, excluded: Fields | undefined): Fields {
  if (excluded === undefined) return { isMember, below };
  const kept = [...below]
    .filter(([step]) => !excluded.below.get(step)?.isMember)
    .map(([step, nested]) => [step, withoutSubtrees(nested, excluded.below.get(step))] as const)
    .filter(([, nested]) => !isEmpty(nested));
  return { isMember, below: new Map(kept) };
}

function add(fields: Fields, path: readonly string[]): void {
  let at = fields;
  for (const step of path) {
    const next = at.below.get(step) ?? noFields();
    at.below.set(step, next);
    at = next;
  }
  at.isMember = true;
}

/** Returns the paths of the members: `.spec.ports[port=80,protocol="TCP"].name`. */
function pathsIn(fields: Fields, prefix = ''): readonly string[] {
  const steps = [...fields.below].sort(([a], [b]) => compareText(a, b));
  return [
    ...steps.filter(([, { isMember }]) => isMember).map(([step]) => prefix + formatStep(step)),
    ...steps.flatMap(([step, nested]) => pathsIn(nested, prefix + formatStep(step))),
  ];
}

function formatStep(step: string): string {
  const rest = step.slice(2);
  if (step.startsWith('f:')) return `.${rest}`;
  if (step.startsWith('v:')) return `[=${JSON.stringify(JSON.parse(rest))}]`;
  const keys = Object.entries(JSON.parse(rest) as JsonObject);
  return `[${keys.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(',')}]`;
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

// Values

/** A part of a value that server-side apply merges separately. */
interface Part {
  readonly value: unknown;
  readonly schema: Schema;
  /**
   * Whether the part is a field of a struct. Unlike a map's key or a list's item, such a field has no owner just
   * because a field below it has one.
   */
  readonly isDeclared: boolean;
}

type Parts = ReadonlyMap<string, Part>;
const noParts: Parts = new Map();

/** Returns the parts by their steps, undefined for a value that is merged as a whole. */
function partsOf(value: unknown, schema: Schema): Parts | undefined {
  const resolved = resolve(schema);
  switch (resolved.type) {
    case 'scalar':
    case 'quantity':
      return undefined;
    case 'struct':
    case 'map':
      if (resolved.atomic) return undefined;
      return isObject(value) ? membersOf(value, resolved) : noParts;
    case 'list':
      if (resolved.merge === 'atomic') return undefined;
      return Array.isArray(value) ? itemsOf(value, resolved.merge, resolved.items) : noParts;
    case 'schemaless':
      if (!resolved.isGranular) throw new NotSimulatedError('a field whose merge rules are not known');
      if (value === null || value === undefined) return noParts;
      return isObject(value) ? membersOf(value, resolved) : undefined;
  }
}

function membersOf(object: JsonObject, schema: Schema): Parts {
  const members = new Map<string, Part>();
  for (const name of Object.keys(object)) {
    const value = object[name];
    if (value === undefined) continue;
    members.set(`f:${name}`, { value, schema: schemaOfMember(schema, name), isDeclared: isDeclared(schema, name) });
  }
  return members;
}

function itemsOf(list: readonly unknown[], merge: 'set' | readonly ListKey[], schema: Schema): Parts {
  const items = new Map<string, Part>();
  for (const value of list) {
    const step = stepOfItem(value, merge);
    if (items.has(step)) throw new NotSimulatedError(`a list with two items ${formatStep(step)}`);
    items.set(step, { value, schema, isDeclared: false });
  }
  return items;
}

function stepOfItem(item: unknown, merge: 'set' | readonly ListKey[]): string {
  if (merge === 'set') return `v:${goJson(item)}`;
  if (!isObject(item)) throw new NotSimulatedError('an item of a keyed list that is no object');
  const keys = merge
    .map(({ name, default: initial }) => [name, Object.hasOwn(item, name) ? item[name] : initial] as const)
    .filter(([, value]) => value !== undefined);
  if (keys.length === 0) throw new NotSimulatedError('an item of a keyed list that has no key');
  return `k:${goJson(Object.fromEntries(keys.sort(([a], [b]) => compareText(a, b))))}`;
}

/** Go's JSON escapes characters that could end a script in HTML. */
function goJson(value: unknown): string {
  const escaped = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, escaped);
}

/** True for a field in the kind's schema. The tables omit scalars of the built-in structs. */
const isDeclared = (schema: Schema, name: string): boolean =>
  schema.type === 'struct' && (Object.hasOwn(schema.fields, name) || schema.others.type !== 'schemaless');

function schemaOfMember(schema: Schema, name: string): Schema {
  if (schema.type === 'struct') return fieldSchema(schema, name);
  return schema.type === 'map' ? schema.values : granular;
}

/** Returns an object of the kind without fields, as Go creates it. */
function emptyObject({ apiVersion, kind, ...members }: StoredObject, schema: Schema): StoredObject {
  // Unset times are null, even in an empty object.
  const nulls = Object.entries(members).filter(([, value]) => value === null);
  return {
    metadata: {},
    ...Object.fromEntries(nulls),
    ...(emptyValue(schema) as object),
    apiVersion,
    kind,
  } as StoredObject;
}

function emptyValue(schema: Schema): unknown {
  const resolved = resolve(schema);
  if (resolved.type !== 'struct') return null;
  const { alwaysPresent = [] } = resolved;
  return Object.fromEntries(alwaysPresent.map((name) => [name, emptyValue(fieldSchema(resolved, name))]));
}

/** Returns the fields that an apply of the value owns. */
function fieldsOf(value: unknown, schema: Schema): Fields {
  const parts = partsOf(value, schema);
  if (parts === undefined) return { isMember: true, below: new Map() };
  const fields = noFields();
  for (const [step, part] of parts) {
    const nested = fieldsOf(part.value, part.schema);
    if (!part.isDeclared || part.value === null || isEmptyObject(part.value)) nested.isMember = true;
    if (!isEmpty(nested)) fields.below.set(step, nested);
  }
  return fields;
}

const isEmptyObject = (value: unknown): boolean => isObject(value) && Object.keys(value).length === 0;

interface Changes {
  /** Fields that are new or have another value. */
  readonly set: Fields;
  readonly removed: Fields;
}

/** Returns the changes in each version: a manager keeps its fields in the version in which it has set them. */
function changesByVersion(
  before: StoredObject,
  after: StoredObject,
  write: FieldWrite,
): (apiVersion: string) => Changes {
  const changes = new Map<string, Changes>();
  return (apiVersion) => {
    const version = write.otherVersions?.get(apiVersion);
    const known = changes.get(apiVersion);
    if (known !== undefined) return known;
    const found =
      version === undefined || before === after
        ? changesOf(before, after, write)
        : changesOf(version.convert(before), version.convert(after), { ...write, schema: version.schema });
    changes.set(apiVersion, found);
    return found;
  };
}

function changesOf(before: unknown, after: unknown, { schema, resetFields = {} }: FieldWrite): Changes {
  const changes = { set: noFields(), removed: noFields() };
  addChanges(before, after, schema, [], changes);
  const reset = parseFields(resetFields);
  return { set: withoutSubtrees(changes.set, reset), removed: withoutSubtrees(changes.removed, reset) };
}

/** @param before undefined if the field is new @param after undefined if it is removed */
function addChanges(before: unknown, after: unknown, schema: Schema, path: string[], changes: Changes): void {
  if (before === after) return;
  const old = partsOf(before, schema);
  const parts = partsOf(after, schema);
  const isChanged = before !== undefined && after !== undefined;
  if (before === undefined) add(changes.set, path);
  if (after === undefined) add(changes.removed, path);
  const hasParts = (old !== undefined && old.size > 0) || (parts !== undefined && parts.size > 0);
  if (!hasParts) {
    if (isChanged && !isDeepStrictEqual(before, after)) add(changes.set, path);
    return;
  }
  // This happens only where the schema is unknown: a scalar or a list has become an object, or the reverse.
  if (isChanged && (old === undefined || parts === undefined)) add(changes.set, path);
  for (const step of new Set([...(old?.keys() ?? []), ...(parts?.keys() ?? [])])) {
    const [from, to] = [old?.get(step), parts?.get(step)];
    path.push(step);
    addChanges(from?.value, to?.value, (to ?? from)?.schema ?? granular, path, changes);
    path.pop();
  }
}

/**
 * Merges the applied value into the stored one. Returns the stored value itself if nothing changes. Removes nothing.
 */
function merge(live: unknown, applied: unknown, schema: Schema): unknown {
  if (live === applied) return live;
  const own = partsOf(applied, schema);
  const old = live === undefined || own === undefined ? undefined : partsOf(live, schema);
  if (own === undefined || old === undefined || (own.size === 0 && old.size === 0)) {
    return isDeepStrictEqual(live, applied) ? live : applied;
  }
  if (Array.isArray(live) || Array.isArray(applied)) {
    const items = mergeItems(old, own);
    const isSame = Array.isArray(live) && items.length === live.length && items.every((item, at) => item === live[at]);
    return isSame ? live : items;
  }
  const merged = [...own].map(([step, part]) => [step, merge(old.get(step)?.value, part.value, part.schema)] as const);
  if (merged.every(([step, value]) => value === old.get(step)?.value)) return live;
  return { ...(live as object), ...Object.fromEntries(merged.map(([step, value]) => [step.slice(2), value])) };
}

/**
 * Keeps the order of the applied items. Each other item stays behind the item that it followed, as far as the applied
 * order allows.
 */
function mergeItems(live: Parts, applied: Parts): readonly unknown[] {
  const merged: unknown[] = [];
  const own = [...applied];
  const shared = own.map(([step]) => step).filter((step) => live.has(step));
  const takeUpTo = (last: string | undefined) => {
    for (let next = own.shift(); next !== undefined; next = own.shift()) {
      const [step, { value, schema }] = next;
      merged.push(merge(live.get(step)?.value, value, schema));
      if (step === last) return;
    }
  };
  for (const [step, { value }] of live) {
    if (!applied.has(step)) merged.push(value);
    else if (step === shared[0]) takeUpTo(shared.shift());
  }
  takeUpTo(undefined);
  return merged;
}

/** Removes the fields that the manager applied last, unless another manager owns them. */
function prune(merged: unknown, last: Fields, managers: Iterable<Manager>, schema: Schema): unknown {
  const complete = (fields: Fields) => withDeclaredParents(fields, schema);
  const all = complete(fieldsOf(merged, schema));
  const before = complete(last);
  let owned = complete(fieldsOf(remove(merged, before, schema), schema));
  for (const { fields } of managers) owned = union(owned, complete(fields));
  // Removing an item removes everything in it, so the item must stay if anything in it has an owner.
  const pruned = complete(fieldsOf(remove(merged, difference(all, owned), schema), schema));
  return remove(merged, intersection(difference(all, pruned), before), schema);
}

/** Adds the declared fields above members: `.spec` for `.spec.replicas`, but neither keys of maps nor items. */
function withDeclaredParents({ isMember, below }: Fields, schema: Schema): Fields {
  const resolved = resolve(schema);
  const nested = [...below].map(([step, fields]) => {
    const added = withDeclaredParents(
      fields,
      resolved.type === 'list' ? resolved.items : schemaOfMember(resolved, step.slice(2)),
    );
    if (step.startsWith('f:') && isDeclared(resolved, step.slice(2))) added.isMember = true;
    return [step, added] as const;
  });
  return { isMember, below: new Map(nested) };
}

/** Returns the value without these fields. A value that loses all of its parts becomes null. */
function remove(value: unknown, fields: Fields, schema: Schema): unknown {
  const parts = partsOf(value, schema);
  if (parts === undefined) return typeof value === 'object' ? null : value;
  const kept = [...parts].filter(([step]) => !fields.below.get(step)?.isMember);
  if (kept.length === 0) return null;
  const results = kept.map(([step, part]) => {
    const nested = fields.below.get(step);
    return [step.slice(2), nested === undefined ? part.value : remove(part.value, nested, part.schema)] as const;
  });
  return Array.isArray(value) ? results.map(([, result]) => result) : Object.fromEntries(results);
}
