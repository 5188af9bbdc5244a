import { isDeepStrictEqual } from 'node:util';
import type { Delta } from '../cache/store.ts';
import type { ClientRequest, JsonPatchOperation } from '../client/client.ts';
import { mustNotExist } from '../client/client.ts';
import type { KubeObject } from '../kind/object.ts';

/**
 * Whether a delta shows nothing that its writer does not already know. The delta was caused by the response to a write,
 * or by an event while the write is in flight.
 *
 * True for an object that the write created, and for a change of nothing but the fields that the write sent, to the
 * values that it sent. If in doubt, false.
 *
 * If true, the writer's key is skipped. If false, the key is reconciled once more. Another client that made the same
 * change is no danger: the write then fails, or changes nothing.
 */
export function isOnlySent(request: ClientRequest, delta: Delta<KubeObject>): boolean {
  const { verb, subresource, body } = request;
  // The response to an apply without a precondition does not say which client created the object.
  if (delta.type === 'added') return verb === 'create' || (verb === 'apply' && versionIn(body) === mustNotExist);
  if (delta.type === 'deleted' || body === undefined) return false;
  try {
    const { object, previous } = delta;
    const [sent, isApply] = [asFields(body), verb === 'apply'];
    // A request with a version that the store has not shown is based on another client's change.
    const version = versionIn(sent) ?? previous.metadata.resourceVersion;
    if (version !== previous.metadata.resourceVersion) return false;
    // A `transform` may have dropped a spec that another client has changed.
    const mayChangeSpec = subresource === undefined && Object.keys(sent).some((name) => !besideSpec.has(name));
    const generations = (object.metadata.generation ?? 0) - (previous.metadata.generation ?? 0);
    if (generations > (mayChangeSpec ? 1 : 0)) return false;
    return (
      areExplained(without(comparedElsewhere, object), without(comparedElsewhere, previous), sent, isApply) &&
      areExplained(
        without(changedByServer, object.metadata),
        without(changedByServer, previous.metadata),
        membersOf(sent.metadata),
        isApply,
      )
    );
  } catch {
    // Another client has made the object unreadable.
    return false;
  }
}

const versionIn = (body: unknown): unknown => membersOf(membersOf(body).metadata).resourceVersion;

/** The fields that a write changed, among those that it sent. */
export const changedBy = ({ object, previous }: Modified, body: object): object =>
  differing(asFields(body), object, previous);

function differing(sent: Members, value: unknown, previous: unknown): Members {
  const [after, before] = [membersOf(value), membersOf(previous)];
  const changed = Object.entries(sent).filter(([name]) => !isDeepStrictEqual(own(after, name), own(before, name)));
  return Object.fromEntries(
    changed.map(([name, each]) => [
      name,
      isMembers(each) && isMembers(own(after, name))
        ? differing(each, own(after, name), own(before, name))
        : asJson(each),
    ]),
  );
}

/**
 * Whether a change undoes what was sent: a field gets another value, or an item is removed from a list.
 *
 * @param isUndoneAlready whether an earlier change has undone it, so that items may be missing already
 */
export function undoes({ object, previous }: Modified, sent: object, isUndoneAlready: boolean): boolean {
  try {
    return isUndone(object, previous, sent, isUndoneAlready);
  } catch {
    return false;
  }
}

/** The change of an object. */
export type Modified = Extract<Delta<KubeObject>, { readonly type: 'modified' }>;

type Members = Readonly<Record<string, unknown>>;

const asFields = (body: object): Members => (Array.isArray(body) ? fieldsOf(body) : (body as Members));

function isUndone(value: unknown, previous: unknown, sent: unknown, isUndoneAlready: boolean): boolean {
  if (isMembers(sent)) {
    const [after, before] = [membersOf(value), membersOf(previous)];
    return Object.keys(sent).some(
      (name) =>
        name !== 'resourceVersion' && isUndone(own(after, name), own(before, name), sent[name], isUndoneAlready),
    );
  }
  if (isDeepStrictEqual(value, previous)) return false;
  // Other items may belong to another writer.
  if (isShortList(sent) && isShortList(previous) && isShortList(value))
    return sent.some((item) => (isUndoneAlready || includes(previous, item)) && !includes(value, item));
  return !isDeepStrictEqual(value, sent ?? undefined);
}

/** Longer lists are not compared, because each item is compared with each. */
const maxItems = 100;

const isShortList = (value: unknown): value is readonly unknown[] => Array.isArray(value) && value.length <= maxItems;

const includes = (items: readonly unknown[], item: unknown): boolean =>
  items.some((each) => isDeepStrictEqual(each, item));

const besideSpec = new Set(['metadata', 'apiVersion', 'kind', 'status']);
/** Items of a list lack `apiVersion` and `kind`. */
const comparedElsewhere = new Set(['metadata', 'apiVersion', 'kind']);
const changedByServer = new Set(['resourceVersion', 'generation', 'managedFields']);

function areExplained(after: Members, before: Members, sent: Members, isApply: boolean): boolean {
  const names = [...new Set([...Object.keys(after), ...Object.keys(before)])];
  return names.every((name) => isExplained(own(after, name), own(before, name), own(sent, name), isApply));
}

/**
 * Whether a value is as it was before, or as it was sent. `undefined`: it was not sent. Sending null removes a member.
 */
function isExplained(value: unknown, previous: unknown, sent: unknown, isApply: boolean): boolean {
  if (value === previous || isDeepStrictEqual(value, previous)) return true;
  if (sent === undefined) return false;
  if (sent === null) return value === undefined;
  if (isMembers(value) && isMembers(sent)) return areExplained(value, membersOf(previous), sent, isApply);
  return (isApply ? isMerged(value, previous, sent) : undefined) ?? isSent(value, sent);
}

const isSent = (value: unknown, sent: unknown): boolean =>
  isDeepStrictEqual(value, sent) || isDeepStrictEqual(value, asJson(sent));

/**
 * Whether an apply has merged its items into a list of named items (conditions, containers), and no item was removed.
 * If an item was removed, another client may have removed it, even if the list is now as it was sent. Undefined for
 * other lists, which an apply usually replaces.
 */
function isMerged(value: unknown, previous: unknown, sent: unknown): boolean | undefined {
  const [after, before, items] = [byName(value), byName(previous), byName(sent)];
  if (after === undefined || before === undefined || items === undefined) return undefined;
  const kept = Object.keys(after).filter((name) => Object.hasOwn(before, name));
  return isDeepStrictEqual(kept, Object.keys(before)) && areExplained(after, before, items, true);
}

/** The items of a list, in order, by their type or name. Undefined if these are missing or not unique. */
function byName(list: unknown): Members | undefined {
  if (!Array.isArray(list)) return undefined;
  const items = list.map((item) => {
    const { type, name } = membersOf(item);
    // The prefix keeps the order: JavaScript moves members with numeric names to the front.
    return [`name ${type ?? name}`, item] as const;
  });
  const members = Object.fromEntries(items);
  return 'name undefined' in members || Object.keys(members).length < items.length ? undefined : members;
}

/** What the server receives: a date becomes a string, and an undefined member is absent. */
const asJson = (sent: unknown): unknown =>
  typeof sent === 'object' && sent !== null ? JSON.parse(JSON.stringify(sent)) : sent;

const without = (names: ReadonlySet<string>, members: object): Members =>
  Object.fromEntries(Object.entries(members).filter(([name]) => !names.has(name)));

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const membersOf = (value: unknown): Members => (isMembers(value) ? value : {});

const own = (members: Members, name: string): unknown => (Object.hasOwn(members, name) ? members[name] : undefined);

/**
 * The fields that a JSON patch sets, as a merge patch. A list item does not match by its index, so it counts as not
 * sent.
 */
function fieldsOf(operations: readonly JsonPatchOperation[]): Members {
  const fields: Record<string, unknown> = {};
  for (const operation of operations) {
    if (operation.op === 'test') continue;
    const names = operation.path.split('/').slice(1).map(unescaped);
    const last = names.pop() ?? '';
    let parent = fields;
    for (const name of names) {
      const member = own(parent, name);
      const next = isMembers(member) ? (member as Record<string, unknown>) : {};
      define(parent, name, next);
      parent = next;
    }
    define(parent, last, operation.op === 'add' || operation.op === 'replace' ? operation.value : null);
  }
  return fields;
}

/** An assignment to `__proto__` would set the prototype. */
const define = (members: object, name: string, value: unknown): void =>
  void Object.defineProperty(members, name, { value, enumerable: true, writable: true, configurable: true });

const unescaped = (segment: string): string => segment.replaceAll('~1', '/').replaceAll('~0', '~');
