import { controllerReference, type Kind, keyString, owns, type Predicate, watches } from '@echoperator/runtime';
import { type Delta, Informer } from '@echoperator/runtime/cache';
import type { OwnerReference } from '@echoperator/runtime/client';
import type { Watch } from '@echoperator/runtime/controller';
import { Deployment, Pod } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { Part, Planet, stored, Widget } from '../../../../testkit/widgets.ts';
import { ScriptedServer, type Stream } from '../../environment/scripted-server.ts';

let server: ScriptedServer;
let transport: Transport;
let stop: AbortController;
let running: Promise<void>;
/** The keys that were enqueued. */
let keys: string[];

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  stop = new AbortController();
  running = Promise.resolve();
  keys = [];
});
afterEach(async () => {
  stop.abort();
  await running;
  await transport.close();
  await server.close();
});

/** Attaches the watch to an informer of Parts, which has these. */
async function attach(watch: Watch, parts: readonly Part[]): Promise<Stream> {
  const informer = new Informer({ client: new HttpClient(transport, 'tester'), kind: Part, log: new RecordingLog() });
  watch.attach(
    <T>() => informer as unknown as Informer<T & Part>,
    (key) => keys.push(keyString(key)),
  );
  running = informer.run(stop.signal);
  (await server.next({ watch: false })).list('5', parts);
  return (await server.next({ watch: true })).stream();
}

const part = (name: string, resourceVersion: string, ...ownerReferences: readonly OwnerReference[]): Part =>
  stored(name, resourceVersion, { ownerReferences });
const ownedBy = (kind: Kind, name: string): OwnerReference => controllerReference(kind, stored(name, '1'));
const enqueued = (...expected: readonly string[]): Promise<boolean> =>
  eventually(`the keys ${expected}`, async () => keys.length >= expected.length).finally(() =>
    expect(keys).toEqual(expected),
  );

describe('owns', () => {
  test('enqueues the controller of a child when the child is added and deleted', async () => {
    const stream = await attach(owns(Widget, Part), [part('p', '1', ownedBy(Widget, 'w'))]);
    await enqueued('default/w');
    stream.send('DELETED', part('p', '6', ownedBy(Widget, 'w')));
    await enqueued('default/w', 'default/w');
  });

  test('enqueues both owners when the controller of a child changes', async () => {
    const stream = await attach(owns(Widget, Part), [part('p', '1', ownedBy(Widget, 'w'))]);
    stream.send('MODIFIED', part('p', '6', ownedBy(Widget, 'v')));
    await enqueued('default/w', 'default/w', 'default/v');
    stream.send('MODIFIED', part('p', '7'));
    await enqueued('default/w', 'default/w', 'default/v', 'default/v');
  });

  test('enqueues nothing for children of other kinds and for owners that are not the controller', async () => {
    const other = { ...ownedBy(Widget, 'v'), controller: false };
    await attach(owns(Widget, Part), [
      part('none', '1'),
      part('of-another-kind', '2', { ...ownedBy(Widget, 'v'), kind: 'Gadget' }),
      part('of-another-group', '3', { ...ownedBy(Widget, 'v'), apiVersion: 'elsewhere.example/v1' }),
      part('not-controlled', '4', other),
      part('p', '5', other, ownedBy(Widget, 'w')),
    ]);
    await enqueued('default/w');
  });

  test('enqueues the owner whatever the version in the owner reference', async () => {
    await attach(owns(Widget, Part), [
      part('of-core', '1', { ...ownedBy(Widget, 'v'), apiVersion: 'v1' }),
      part('p', '2', { ...ownedBy(Widget, 'w'), apiVersion: 'test.example/v1alpha1' }),
    ]);
    await enqueued('default/w');
  });

  test('enqueues a cluster-scoped owner without the namespace of the child', async () => {
    await attach(owns(Planet, Part), [part('p', '1', ownedBy(Planet, 'earth'))]);
    await enqueued('earth');
  });
});

describe('watches', () => {
  const labelled = (resourceVersion: string, owners: string): Part =>
    stored('p', resourceVersion, { labels: { owners } });
  const watch = watches(Part, ({ metadata }) => metadata.labels?.owners?.split(' ').map((name) => ({ name })) ?? []);

  test('enqueues the keys that keysOf returns for an added or deleted object', async () => {
    const stream = await attach(watch, [labelled('1', 'a b')]);
    stream.send('DELETED', labelled('6', 'b c'));
    await enqueued('a', 'b', 'b', 'c');
  });

  test('enqueues the keys of a changed object once if they stay the same', async () => {
    const stream = await attach(watch, [labelled('1', 'a b')]);
    stream.send('MODIFIED', labelled('6', 'a b'));
    stream.send('DELETED', labelled('7', 'end'));
    await enqueued('a', 'b', 'a', 'b', 'end');
  });

  test('enqueues also the keys that an object had before the change', async () => {
    const stream = await attach(watch, [labelled('1', 'a')]);
    stream.send('MODIFIED', labelled('6', 'b'));
    stream.send('MODIFIED', part('p', '7'));
    await enqueued('a', 'a', 'b', 'b');
  });
});

test('a watch of children takes only predicates of their kind', () => {
  const isScheduled: Predicate<Pod> = ({ object }) => object.spec?.nodeName !== undefined;
  const make = (): void => {
    owns(Widget, Pod, { predicate: isScheduled });
    // @ts-expect-error the predicate takes pods
    owns(Widget, Deployment, { predicate: isScheduled });
  };
  expect(make).toBeInstanceOf(Function);
});

test('a watch finds out who made a change only if the change maps to keys, and once for all of them', () => {
  let asked = 0;
  let change: (delta: Delta<Part>, origin: 'watch') => void = () => {};
  const informer = {
    trackFieldOwners: () => () => {
      asked += 1;
      return [{ manager: 'tester', fieldsV1: { 'f:metadata': {} } }];
    },
    addHandler: (handler: typeof change) => {
      change = handler;
      return () => {};
    },
  } as unknown as Informer<Part>;
  const causes: unknown[] = [];
  let owners: readonly string[] = [];
  watches(Part, () => owners.map((name) => ({ name }))).attach(
    <T>() => informer as unknown as Informer<T & Part>,
    (_key, _options, cause) => causes.push(cause),
    true,
  );
  const object = stored('p', '2', { labels: { app: 'a' } });
  const delta = { type: 'modified', object, previous: stored('p', '1') } as const;
  change(delta, 'watch');
  expect(asked).toBe(0);
  owners = ['a', 'b'];
  change(delta, 'watch');
  expect(asked).toBe(1);
  expect(causes).toMatchObject([{ by: 'tester' }, { by: 'tester' }]);
});
