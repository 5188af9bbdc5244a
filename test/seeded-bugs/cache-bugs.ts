import type { SeededBug } from './seeded-bug.ts';

const overlay = (
  name: string,
  find: string,
  replace: string,
  explore: readonly string[] = ['two-controllers'],
): SeededBug => ({
  name: `Cache: ${name}`,
  file: 'packages/runtime/src/cache/overlay.ts',
  find,
  replace,
  plans: { properties: ['overlay-model'], explore },
});

/** A bug that shows itself only when etcd was restored from a backup. */
const ofRestore = (...[name, find, replace]: readonly [string, string, string]): SeededBug => ({
  ...overlay(name, find, replace),
  plans: { properties: ['overlay-model'] },
  notSimulated: 'a simulated API server is never restored from a backup',
});

/** Bugs of what the cache shows of responses, and of who is enqueued by them. */
export const cacheBugs: readonly SeededBug[] = [
  overlay(
    'a response hides a newer one',
    'const isOlder = known !== undefined && compareResourceVersions(version, known.version) <= 0;',
    'const isOlder = false;',
  ),
  overlay(
    'a response hides what the watch has delivered',
    ' || this.hasReached(version)) return none;',
    ') return none;',
  ),
  overlay('an event hides a newer response', 'if (difference < 0) {', "if (difference < 0 && type === 'ADDED') {"),
  overlay(
    'an object that is gone comes back',
    "    this.#set({ state: 'gone', key: keyOf(held), uid, version, sinceMs: nowMs, isDelivered });\n",
    '',
  ),
  overlay(
    'an older deletion lifts a tombstone',
    "if (type === 'DELETED' && difference >= 0)",
    "if (type === 'DELETED')",
    ['selected'],
  ),
  overlay(
    'an object stays that the watch has passed',
    '      if (held !== undefined) deltas.push(...this.#delete(held));\n',
    '',
    ['unreadable-selector'],
  ),
  overlay('a list removes an object that is newer', '        if (held !== undefined) kept.push(held);\n', ''),
  overlay(
    'a list that is older brings an object back',
    'if (entry.sinceMs < startedAtMs || (!entry',
    'if (true || (!entry',
    ['deleted-during-list'],
  ),
  ofRestore(
    'a response from before a restore is shown',
    '      this.#epoch += 1;\n      this.#entries.clear();',
    '      this.#entries.clear();',
  ),
  ofRestore(
    'a restore keeps what responses have shown',
    '      this.#epoch += 1;\n      this.#entries.clear();',
    '      this.#epoch += 1;',
  ),
  overlay(
    'an object outside of the selection is shown',
    'const isShown = this.#covers(object);',
    'const isShown = held !== undefined || this.#covers(object);',
    ['selected'],
  ),
  overlay(
    'tombstones pile up',
    "(entry.state === 'gone' && entry.isDelivered)) continue;",
    "entry.state === 'gone') continue;",
    ['unreadable-selector'],
  ),
  overlay(
    'an object that was replaced is only modified',
    'const replaced = held !== undefined && held.metadata.uid !== object.metadata.uid ? this.#delete(held) : none;',
    'const replaced: readonly Delta<T>[] = none;',
    ['selected'],
  ),
  ...(
    [
      [
        'no change of an own response enqueues the writer',
        'controller/sent-fields.ts',
        "if (delta.type === 'deleted' || body === undefined) return false;",
        "if (delta.type !== 'deleted') return true;",
      ],
      [
        'every change of an own response enqueues the writer',
        'controller/reconcile-requests.ts',
        'if (!isOnlySent(request, delta)) return undefined;',
        'if (request !== undefined) return undefined;',
      ],
      [
        'an event is ascribed to a request that has failed',
        'controller/reconcile-requests.ts',
        'traced?.responded(error);\n      for (const each of tracked) each.end();',
        'traced?.responded(error);',
        ['replaced-during-apply'],
      ],
      [
        'an own deletion is not shown',
        'cache/overlay.ts',
        "this.#set({ state: 'gone', key: keyOf(held), uid, version, sinceMs: nowMs, isDelivered });\n    return this.#delete(held);",
        'return none;',
      ],
      [
        'an own deletion enqueues nobody',
        'cache/informer.ts',
        'this.#responded(partition, overlay.hide(key, uid, sent, performance.now()), [])',
        'void overlay.hide(key, uid, sent, performance.now())',
      ],
      [
        'a key is handed out while a request has no response',
        'controller/controller.ts',
        'requests.end(() => this.#queue.done(key));',
        'requests.end(() => {});\n      this.#queue.done(key);',
      ],
      [
        'the write of another controller does not enqueue a key',
        'controller/controller.ts',
        'return writer?.controller === this && writer.key === key;',
        'return writer?.key === key;',
      ],
    ] as const
  ).map(([name, file, find, replace, explore = ['selected', 'two-controllers']]) => ({
    name: `Cache: ${name}`,
    file: `packages/runtime/src/${file}`,
    find,
    replace,
    plans: { properties: ['own-writes-model'], explore },
  })),
];
