import type { Delta } from '@echoperator/runtime/cache';
import type { WatchEvent } from '@echoperator/runtime/client';
import { expect, test } from '@jest/globals';
import { Overlay, type RequestSnapshot } from '../../../../packages/runtime/src/cache/overlay.ts';
import { compareResourceVersions } from '../../../../packages/runtime/src/cache/resource-version.ts';
import { Store } from '../../../../packages/runtime/src/cache/store.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';

/** `OVERLAY_RUNS=100000` tries more histories. */
const numRuns = Number(process.env.OVERLAY_RUNS ?? 5000);

const isSelected = ({ metadata }: Widget): boolean => metadata.labels?.in === 'yes';
const isNewer = (a: string, b: string): boolean => compareResourceVersions(a, b) > 0;
const versionOf = ({ metadata }: Widget): string => metadata.resourceVersion;

/** A response on its way. */
interface Response {
  readonly sent: RequestSnapshot;
  /** How many lists had been taken when the request was sent. */
  readonly lists: number;
  /** Of a write or a get. */
  readonly object?: Widget;
  /** Of a deletion, or of a get that found nothing: what the store held when the request was sent. */
  readonly gone?: { readonly name: string; readonly uid: string };
}

interface List {
  readonly objects: readonly Widget[];
  readonly version: string;
  readonly startedAtMs: number;
  readonly position: number;
}

/** A kind on a server, its watch with a selector, the responses to requests about it, and a store that follows both. */
class World {
  readonly store = new Store<Widget>({ kind: Widget });
  readonly overlay: Overlay<Widget>;
  /**
   * Whether an object seems to be in the selection: the runtime cannot parse every selector, and then takes each object
   * to be.
   */
  readonly #seemsSelected: (object: Widget) => boolean;
  readonly #isSelectorKnown: boolean;
  /** The uids of all objects that were ever outside of the selection. */
  readonly #external = new Set<string>();
  #server = new Map<string, Widget>();
  #log: WatchEvent<Widget>[] = [];
  #position = 0;
  #backup:
    | { readonly server: Map<string, Widget>; readonly log: WatchEvent<Widget>[]; readonly version: number }
    | undefined;
  #version = 7;
  #uids = 0;
  #nowMs = 0;
  #lists = 0;
  /** What the watch, or the list before it, has delivered everything up to. */
  #reached = '0';
  #contents = 0;
  #list: List | undefined;
  #responses: Response[] = [];
  /** The deltas, summed up. */
  readonly #mirror = new Map<string, Widget>();
  /** By name: the newest version that a response or the watch has shown. */
  #shown = new Map<string, Widget>();
  /** By name: the newest version of a response. */
  readonly #newest = new Map<string, string>();
  /** The uids that a response has shown to be gone. */
  readonly #gone = new Set<string>();
  /** The uids of all responses that have shown a deletion. */
  readonly #deleted = new Set<string>();
  /** By uid: when it last left the selection. */
  readonly #left = new Map<string, string>();
  readonly violations: string[] = [];

  constructor(isSelectorKnown: boolean) {
    this.#isSelectorKnown = isSelectorKnown;
    this.#seemsSelected = isSelectorKnown ? isSelected : () => true;
    this.overlay = new Overlay(this.store, undefined, this.#seemsSelected);
    this.#requestList();
    this.#takeList();
  }

  /** @param content differs, so that an equal version with other content shows itself after a restore. */
  #commit(name: string, change: 'put' | 'in' | 'out' | 'delete', step: number): Widget | undefined {
    const before = this.#server.get(name);
    if (before === undefined && change === 'delete') return undefined;
    this.#version += 1 + step;
    const isIn = change === 'out' ? false : change === 'in' || (before === undefined ? true : isSelected(before));
    const uid = before?.metadata.uid ?? `uid-${++this.#uids}`;
    const object: Widget = {
      ...stored(name, String(this.#version), { uid, labels: { in: isIn ? 'yes' : 'no' } }),
      spec: { size: ++this.#contents },
    };
    const wasIn = before !== undefined && isSelected(before);
    if (!isIn) this.#external.add(uid);
    if (wasIn && !isIn) this.#left.set(uid, versionOf(object));
    if (change === 'delete') {
      this.#server.delete(name);
      const { resourceVersion } = object.metadata;
      const last = { ...(before as Widget), metadata: { ...(before as Widget).metadata, resourceVersion } };
      this.#log.push(wasIn ? { type: 'DELETED', object: last } : this.#bookmark());
      return before;
    }
    this.#server.set(name, object);
    if (isIn) this.#log.push({ type: wasIn ? 'MODIFIED' : 'ADDED', object });
    else this.#log.push(wasIn ? { type: 'DELETED', object } : this.#bookmark());
    return object;
  }

  #bookmark(): WatchEvent<Widget> {
    return { type: 'BOOKMARK', object: stored('', String(this.#version)) };
  }

  foreign(name: string, change: 'put' | 'in' | 'out' | 'delete', step: number): void {
    this.#commit(name, change, step);
  }

  /** A request whose response comes later. */
  request(name: string, change: 'put' | 'in' | 'out' | 'delete' | 'get', step: number): void {
    const sent = this.overlay.beforeRequest({ namespace: 'default', name });
    const lists = this.#lists;
    if (change === 'get') {
      const object = this.#server.get(name);
      if (object !== undefined) this.#responses.push({ sent, lists, object });
      else if (sent.uid !== undefined) this.#responses.push({ sent, lists, gone: { name, uid: sent.uid } });
      return;
    }
    if (change === 'delete' && this.#server.get(name)?.metadata.uid !== sent.uid) {
      // A precondition of the uid that the store holds.
      if (sent.uid !== undefined) this.#responses.push({ sent, lists, gone: { name, uid: sent.uid } });
      return;
    }
    const object = this.#commit(name, change, step);
    if (object === undefined) return;
    this.#responses.push({
      sent,
      lists,
      ...(change === 'delete' ? { gone: { name, uid: object.metadata.uid } } : { object }),
    });
  }

  /** The response to any of the requests arrives. */
  respond(which: number): void {
    const [response] = this.#responses.splice(which % Math.max(1, this.#responses.length), 1);
    if (response === undefined) return;
    const { sent, lists, object, gone } = response;
    const isIgnored = sent.epoch !== this.overlay.beforeRequest({ namespace: 'default', name: 'a' }).epoch;
    this.#nowMs += 1;
    if (gone !== undefined) {
      const held = this.store.get({ namespace: 'default', name: gone.name });
      const last = held?.metadata.uid === gone.uid ? versionOf(held) : '0';
      this.#deleted.add(gone.uid);
      // An object that leaves the selection and comes back before it is deleted is deleted and added to the watch. The
      // watch delivers nothing of one that is outside of a selector that cannot be parsed.
      const isDelivered = this.#isSelectorKnown || !this.#external.has(gone.uid);
      if (!isIgnored && isDelivered && !isNewer(this.#left.get(gone.uid) ?? '0', last)) this.#gone.add(gone.uid);
      this.#take(this.overlay.hide({ namespace: 'default', name: gone.name }, gone.uid, sent, this.#nowMs));
      return;
    }
    if (object === undefined) return;
    this.#take(this.overlay.show(object, sent, this.#nowMs, (each) => structuredClone(each)));
    if (isIgnored) return;
    const { name, uid } = object.metadata;
    const isSuperseded = isNewer(this.#newest.get(name) ?? '0', versionOf(object));
    if (!isSuperseded) this.#newest.set(name, versionOf(object));
    const held = this.store.get(object.metadata);
    const isShown = held !== undefined && !isNewer(versionOf(object), versionOf(held));
    const isPassed = this.overlay.hasReached(versionOf(object));
    if (!isShown && !isPassed && this.#seemsSelected(object) && !this.#deleted.has(uid) && !isSuperseded)
      this.violations.push(`the response about ${name} at ${versionOf(object)} is not shown`);
    const isHeld = isShown && held.metadata.uid === uid;
    const isListed = isPassed && lists !== this.#lists;
    if (this.overlay.isOvertaken(object, sent) !== (isListed && this.#seemsSelected(object) && !isHeld))
      this.violations.push(`the response about ${name} at ${versionOf(object)} counts wrongly as overtaken`);
  }

  /** Delivers a batch of events. */
  deliver(count: number): void {
    if (this.#list !== undefined) return;
    const events = this.#log.slice(this.#position, this.#position + count);
    this.#position += events.length;
    for (const event of events) {
      this.#reached = versionOf(event.object);
      this.#take(this.overlay.observe(event));
    }
    this.#take(this.overlay.settle());
  }

  bookmark(): void {
    if (this.#position === this.#log.length) this.#log.push(this.#bookmark());
  }

  /** The watch breaks, and a list is requested: it is of now, and comes later. */
  #requestList(): void {
    this.#nowMs += 1;
    const objects = [...this.#server.values()].filter(isSelected);
    this.#list = { objects, version: String(this.#version), startedAtMs: this.#nowMs, position: this.#log.length };
    this.#nowMs += 1;
  }

  #takeList(): void {
    const list = this.#list;
    if (list === undefined) return;
    this.#list = undefined;
    const { epoch } = this.overlay.beforeRequest({ namespace: 'default', name: 'a' });
    const deltas = this.overlay.replace(structuredClone(list.objects), list.version, list.startedAtMs);
    if (this.overlay.beforeRequest({ namespace: 'default', name: 'a' }).epoch !== epoch) this.#startAgain();
    this.#position = list.position;
    this.#lists += 1;
    this.#reached = list.version;
    this.#take(deltas);
  }

  list(): void {
    if (this.#list === undefined) this.#requestList();
    else this.#takeList();
  }

  backUp(): void {
    this.#backup = { server: new Map(this.#server), log: [...this.#log], version: this.#version };
  }

  /** Etcd is restored: versions start again, and a list is the next thing that the watch requests. */
  restore(): void {
    const backup = this.#backup;
    // A restored server that has written past the cache looks like one that was never restored.
    if (backup === undefined || !isNewer(this.#reached, String(backup.version))) return;
    this.#server = new Map(backup.server);
    this.#log = [...backup.log];
    this.#version = backup.version;
    this.#uids += 100;
    this.#list = undefined;
    this.#requestList();
    this.#takeList();
  }

  #startAgain(): void {
    this.#newest.clear();
    this.#shown.clear();
    this.#gone.clear();
  }

  #take(deltas: readonly Delta<Widget>[]): void {
    for (const delta of deltas) {
      const { name, uid } = delta.object.metadata;
      const known = this.#mirror.get(name);
      if ((known === undefined) !== (delta.type === 'added')) this.violations.push(`${name} is ${delta.type} wrongly`);
      if (delta.type === 'deleted') this.#mirror.delete(name);
      else this.#mirror.set(name, delta.object);
      if (delta.type !== 'added' && known?.metadata.uid !== uid) this.violations.push(`${name} has changed its uid`);
    }
  }

  check(): void {
    const held = this.store.list();
    for (const object of held) {
      const { name, uid } = object.metadata;
      if (this.#mirror.get(name) !== object) this.violations.push(`the deltas do not lead to ${name}`);
      if (!this.#seemsSelected(object)) this.violations.push(`${name} is outside the selection`);
      if (this.#gone.has(uid)) this.violations.push(`${name} has come back`);
      const shown = this.#shown.get(name);
      if (shown !== undefined && isNewer(versionOf(shown), versionOf(object)))
        this.violations.push(`${name} has gone back`);
      this.#shown.set(name, object);
    }
    if (held.length !== this.#mirror.size) this.violations.push('the deltas do not lead to the store');
  }

  /** Everything that is on its way arrives. */
  finish(): void {
    while (this.#responses.length > 0) this.respond(0);
    this.#takeList();
    this.deliver(this.#log.length);
    this.check();
    const byName = (objects: Iterable<Widget>) => [...objects].map((each) => JSON.stringify(each)).sort();
    if (
      JSON.stringify(byName(this.store.list())) !==
      JSON.stringify(byName([...this.#server.values()].filter(isSelected)))
    )
      this.violations.push('the store does not converge');
    if (this.overlay.size > 0) this.violations.push(`${this.overlay.size} entries are left`);
    if (this.overlay.oldestWaiting !== undefined) this.violations.push('something is still waited for');
  }
}

const name = fc.constantFrom('a', 'b');
const skipped = fc.nat(2);
const changes = ['put', 'put', 'in', 'out', 'delete'] as const;
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ type: fc.constant('foreign' as const), name, change: fc.constantFrom(...changes), skipped }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant('request' as const),
      name,
      change: fc.constantFrom(...changes, 'get'),
      skipped,
    }),
  },
  { weight: 5, arbitrary: fc.record({ type: fc.constant('respond' as const), which: fc.nat(5) }) },
  { weight: 5, arbitrary: fc.record({ type: fc.constant('deliver' as const), count: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('list' as const) }) },
  ...(['bookmark', 'backUp', 'restore'] as const).map((type) => ({
    weight: 1,
    arbitrary: fc.record({ type: fc.constant(type) }),
  })),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

function take(world: World, each: Step): void {
  if (each.type === 'foreign') world.foreign(each.name, each.change, each.skipped);
  else if (each.type === 'request') world.request(each.name, each.change, each.skipped);
  else if (each.type === 'respond') world.respond(each.which);
  else if (each.type === 'deliver') world.deliver(each.count);
  else world[each.type]();
}

test('the store shows responses at once, never goes back, is the sum of its deltas, and converges, with late and reordered responses, lists, a selector and restored backups', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 50, size: 'max' }), fc.boolean(), (steps, isSelectorKnown) => {
      const world = new World(isSelectorKnown);
      for (const each of steps) {
        take(world, each);
        world.check();
        if (world.violations.length > 0) break;
      }
      if (world.violations.length === 0) world.finish();
      expect(world.violations).toEqual([]);
    }),
    { numRuns },
  );
});
