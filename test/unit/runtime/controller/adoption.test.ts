import { controllerReference } from '@echoperator/runtime';
import { isConflict, type ObjectMeta, type OwnerReference } from '@echoperator/runtime/client';
import { adoptAndRelease } from '@echoperator/runtime/controller';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

const ownerPath = '/apis/test.example/v1/namespaces/default/widgets/owner';
const partPath = (name: string): string => `/apis/test.example/v1/namespaces/default/parts/${name}`;
const deletionTimestamp = '2026-01-01T00:00:00Z';

const owner = stored('owner', '3');
const ours = controllerReference(Widget, owner);
const others = controllerReference(Widget, stored('another', '4'));
const plain: OwnerReference = { apiVersion: 'v1', kind: 'ConfigMap', name: 'c', uid: 'uid-c' };

let server: ScriptedServer;
let transport: Transport;
beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const matching = { labels: { belongs: 'yes' } };
/** The owner references that the API server has. */
const references = new Map<string, readonly OwnerReference[]>();
const part = (name: string, rest: Partial<ObjectMeta> = {}) => {
  references.set(name, rest.ownerReferences ?? []);
  return stored(name, '5', rest);
};
const claimedOf = async (candidates: Iterable<Part>, of: Widget = owner) => {
  const { children, errors } = await adoptAndRelease({
    client: new HttpClient(transport, 'tester'),
    ownerKind: Widget,
    owner: of,
    childKind: Part,
    candidates,
    matches: ({ metadata }) => metadata.labels?.belongs === 'yes',
  });
  return { names: children.map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`), errors };
};
const childrenAmong = async (candidates: Iterable<Part>, of: Widget = owner) => {
  const { names, errors } = await claimedOf(candidates, of);
  expect(errors).toEqual([]);
  return names;
};

/** Takes the read and the write of a part, which must set just these references. */
async function written(name: string, ownerReferences: readonly OwnerReference[]) {
  const read = await server.next({ method: 'GET', path: partPath(name) });
  read.json(200, stored(name, '5', { ownerReferences: references.get(name) ?? [] }));
  const request = await server.next({ method: 'PATCH', path: partPath(name) });
  expect(request.headers['content-type']).toBe('application/merge-patch+json');
  expect(request.body).toEqual({ metadata: { uid: `uid-${name}`, resourceVersion: '5', ownerReferences } });
  return request;
}
const ownerRead = () => server.next({ method: 'GET', path: ownerPath });

describe('claim sends no request', () => {
  test('for children of the owner that match, and claims them', async () => {
    expect(await childrenAmong([part('p', { ...matching, ownerReferences: [plain, ours] })])).toEqual(['p 5']);
  });

  test('for children of others, and for orphans that do not match, are being deleted or are in another namespace', async () => {
    const candidates = [
      part('others', { ...matching, ownerReferences: [others] }),
      part('no-match'),
      part('going', { ...matching, deletionTimestamp }),
      part('elsewhere', { ...matching, namespace: 'elsewhere' }),
    ];
    expect(await childrenAmong(candidates)).toEqual([]);
  });

  test('for an owner that is being deleted, which adopts and releases nothing', async () => {
    const candidates = [
      part('kept', { ...matching, ownerReferences: [ours] }),
      part('no-match', { ownerReferences: [ours] }),
      part('orphan', matching),
    ];
    expect(await childrenAmong(candidates, stored('owner', '3', { deletionTimestamp }))).toEqual(['kept 5']);
  });

  afterEach(() => expect(server.unclaimed).toBe(0));
});

describe('an orphan that matches', () => {
  test('is adopted and keeps its other owners, after one read of the owner for all orphans', async () => {
    const both = childrenAmong([
      part('p', { ...matching, ownerReferences: [plain, { ...ours, controller: false }] }),
      part('q', matching),
    ]);
    (await ownerRead()).json(200, owner);
    (await written('p', [plain, ours])).json(200, stored('p', '6'));
    (await written('q', [ours])).json(200, stored('q', '7'));
    expect(await both).toEqual(['p 6', 'q 7']);
  });

  test('keeps the other owners that its cache entry lacks', async () => {
    const candidate = part('p', matching);
    references.set('p', [plain]);
    const one = childrenAmong([candidate]);
    (await ownerRead()).json(200, owner);
    (await written('p', [plain, ours])).json(200, stored('p', '6'));
    expect(await one).toEqual(['p 6']);
  });

  test.each<[string, Partial<ObjectMeta>]>([
    ['being deleted', { deletionTimestamp }],
    ['another object of the same name', { uid: 'other' }],
  ])('is not adopted if the API server shows the owner as %s', async (_, metadata) => {
    const none = childrenAmong([part('p', matching), part('q', matching)]);
    (await ownerRead()).json(200, stored('owner', '9', metadata));
    expect(await none).toEqual([]);
    expect(server.unclaimed).toBe(0);
  });

  test('is not adopted if the owner no longer exists', async () => {
    const none = childrenAmong([part('p', matching)]);
    (await ownerRead()).refuse(404, 'NotFound');
    expect(await none).toEqual([]);
  });

  test('is adopted once, even if the store observes the adoption before its response', async () => {
    const live = new Set([part('p', matching)]);
    const one = childrenAmong(live);
    (await ownerRead()).json(200, owner);
    const request = await written('p', [ours]);
    live.clear();
    live.add(stored('p', '6', { ...matching, ownerReferences: [ours] }));
    request.json(200, stored('p', '6'));
    expect(await one).toEqual(['p 6']);
  });

  test('is returned as the cache will show it', async () => {
    const adopting = adoptAndRelease({
      client: new HttpClient(transport, 'tester'),
      ownerKind: Widget,
      owner,
      childKind: Part,
      candidates: [part('p', matching)],
      matches: () => true,
      transform: ({ metadata: { annotations, ...metadata }, ...rest }) => ({ ...rest, metadata }),
    });
    (await ownerRead()).json(200, owner);
    (await written('p', [ours])).json(200, stored('p', '6', { annotations: { large: 'x' } }));
    const [adopted] = (await adopting).children;
    expect(adopted?.metadata).toMatchObject({ name: 'p', resourceVersion: '6' });
    expect(adopted?.metadata).not.toHaveProperty('annotations');
  });

  test('is not adopted if it no longer exists', async () => {
    const none = childrenAmong([part('p', matching)]);
    (await ownerRead()).json(200, owner);
    (await written('p', [ours])).refuse(404, 'NotFound');
    expect(await none).toEqual([]);
  });

  test('causes a Conflict in the errors if it has changed', async () => {
    const claiming = claimedOf([part('p', matching)]);
    (await ownerRead()).json(200, owner);
    (await written('p', [ours])).refuse(409, 'Conflict');
    const { names, errors } = await claiming;
    expect(names).toEqual([]);
    expect(errors.map(isConflict)).toEqual([true]);
  });

  test('is adopted even if another adoption was refused', async () => {
    const claiming = claimedOf([part('gone', { ownerReferences: [ours] }), part('p', matching), part('q', matching)]);
    (await written('gone', [])).refuse(403, 'Forbidden');
    (await ownerRead()).json(200, owner);
    (await written('p', [ours])).refuse(403, 'Forbidden');
    (await written('q', [ours])).json(200, stored('q', '7'));
    const { names, errors } = await claiming;
    expect(names).toEqual(['q 7']);
    expect(errors).toMatchObject([{ code: 403 }, { code: 403 }]);
  });

  test('is not adopted if the owner cannot be read', async () => {
    const failing = claimedOf([part('p', matching), part('q', matching)]);
    failing.catch(() => {});
    (await ownerRead()).refuse(403, 'Forbidden');
    await expect(failing).rejects.toMatchObject({ code: 403 });
    expect(server.unclaimed).toBe(0);
  });
});

describe('a child that no longer matches', () => {
  test('is released and keeps its other owners', async () => {
    const none = childrenAmong([part('p', { ownerReferences: [plain, ours] })]);
    (await written('p', [plain])).json(200, stored('p', '6'));
    expect(await none).toEqual([]);
  });

  test('causes no error if it no longer exists', async () => {
    const none = childrenAmong([part('p', { ownerReferences: [ours] })]);
    (await written('p', [])).refuse(404, 'NotFound');
    expect(await none).toEqual([]);
  });
});
