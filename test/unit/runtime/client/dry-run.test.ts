import { createClient } from '@echoperator/runtime/client';
import { ConfigMap, Pod } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { asDryRun, dryRunConnection } from '../../../../packages/runtime/src/client/dry-run.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

let server: ScriptedServer;

beforeEach(async () => {
  server = await ScriptedServer.start();
});
afterEach(() => server.close());

const key = { namespace: 'default', name: 'a' };
const object = { metadata: { ...key, uid: 'u', resourceVersion: '5', creationTimestamp: '2026-01-01T00:00:00Z' } };

test('every write over a connection for dry runs is one, whatever its caller asks for', async () => {
  await using client = Object.assign(createClient(dryRunConnection(server.connection), { fieldManager: 'test' }), {
    [Symbol.asyncDispose]: () => client.close(),
  });
  const writes = [
    () => client.create(ConfigMap, { metadata: key }),
    () => client.create(ConfigMap, { metadata: key }, { dryRun: false }),
    () => client.update(ConfigMap, object),
    () => client.patch(ConfigMap, key, { type: 'merge', body: { data: { a: 'b' } } }),
    () => client.patch(ConfigMap, key, { type: 'json', body: [] }, { subresource: 'status' }),
    () => client.mergeStatus(Pod, { ...key, resourceVersion: '5' }, { phase: 'Running' }),
    () => client.apply(ConfigMap, { metadata: key }),
    () => client.apply(ConfigMap, { metadata: key }, { dryRun: false, force: true }),
    () => client.delete(ConfigMap, key, { uid: 'u' }),
    () => client.deleteCollection(ConfigMap, { namespace: 'default' }),
  ];
  for (const write of writes) {
    const writing = write();
    const request = await server.next();
    expect([request.method, request.query.getAll('dryRun')]).toEqual([request.method, ['All']]);
    // The API server reads the options of a deletion from its body only.
    if (request.method === 'DELETE') expect(request.body).toMatchObject({ kind: 'DeleteOptions', dryRun: ['All'] });
    request.json(200, object);
    await writing;
  }
});

test('a request cannot say that it is no dry run', () => {
  const remove = asDryRun({
    method: 'DELETE',
    query: 'dryRun=&a=b',
    body: { dryRun: [], propagationPolicy: 'Orphan' },
  });
  expect(remove).toMatchObject({ query: 'a=b&dryRun=All', body: { dryRun: ['All'], propagationPolicy: 'Orphan' } });
  expect(asDryRun({ method: 'DELETE' })).toMatchObject({ body: { dryRun: ['All'] } });
  expect(asDryRun({ method: 'POST', query: 'dryRun=None' }).query).toBe('dryRun=All');
  expect(asDryRun({ method: 'GET', query: 'limit=1' })).toEqual({ method: 'GET', query: 'limit=1' });
});
