import { once } from 'node:events';
import { createServer, type Http2Server, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { PetStore as WirePetStore } from '@echoperator/petstore/wire';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { callMetrics } from '../../../../src/kinds/pet/call-metrics.ts';
import { PetStore } from '../../../../src/kinds/pet/pet-store.ts';

let server: Http2Server;
let sessions: ServerHttp2Session[];
let registry: Registry;
let store: PetStore;
let failure: Error | undefined;
const { signal } = new AbortController();

beforeEach(async () => {
  sessions = [];
  failure = undefined;
  server = createServer(
    connectNodeAdapter({
      routes: (router) =>
        router.service(WirePetStore, {
          async *searchPets() {
            yield { id: 'pet-1' };
            if (failure !== undefined) throw failure;
            yield { id: 'pet-2' };
          },
          deletePets: () => {
            if (failure !== undefined) throw failure;
            return {};
          },
        }),
    }),
  );
  server.on('session', (session) => sessions.push(session));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  registry = new Registry();
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  store = new PetStore({ address, timeoutMs: 5000, interceptors: [callMetrics(registry)] });
});

afterEach(async () => {
  store.close();
  for (const session of sessions) session.destroy();
  server.close();
  await once(server, 'close');
});

/** The calls of a method by their code, and how many of them were measured. */
async function calls(method: string): Promise<Readonly<Record<string, number>>> {
  const json = await registry.getMetricsAsJSON();
  const ofMethod = (name: string) =>
    json
      .flatMap(({ values }) => values as { metricName?: string; labels: Record<string, string>; value: number }[])
      .filter(({ metricName = 'grpc_client_handled_total' }) => metricName === name)
      .filter(({ labels }) => labels.grpc_method === method);
  const byCode = ofMethod('grpc_client_handled_total').map(({ labels, value }) => [labels.grpc_code, value] as const);
  const measured = ofMethod('grpc_client_handling_seconds_count').map(({ value }) => ['measured', value] as const);
  return Object.fromEntries([...byCode, ...measured]);
}

test('every method is exposed at zero before its first call', async () => {
  for (const { name } of WirePetStore.methods) expect(await calls(name)).toEqual({ OK: 0, measured: 0 });
  expect(await registry.metrics()).toContain(
    `grpc_client_handled_total{grpc_type="server_stream",grpc_service="${WirePetStore.typeName}",grpc_method="SearchPets",grpc_code="OK"} 0`,
  );
});

test('a call counts by its code', async () => {
  await store.delete('pet-1', signal);
  failure = new ConnectError('down', Code.Unavailable);
  await expect(store.delete('pet-1', signal)).rejects.toThrow('down');
  expect(await calls('DeletePets')).toEqual({ OK: 1, Unavailable: 1, measured: 2 });
});

test('a search counts when it has ended: complete or with an error', async () => {
  for await (const _ of store.all(signal)) expect(await calls('SearchPets')).toEqual({ OK: 0, measured: 0 });
  expect(await calls('SearchPets')).toEqual({ OK: 1, measured: 1 });
  failure = new ConnectError('down', Code.Unavailable);
  const read = async () => {
    for await (const _ of store.all(signal));
  };
  await expect(read()).rejects.toThrow('down');
  expect(await calls('SearchPets')).toEqual({ OK: 1, Unavailable: 1, measured: 2 });
});

test('the labels have a bounded number of values, whatever the store answers', async () => {
  const codes = Object.values(Code).filter((code) => typeof code === 'number');
  const failures = [...codes, 999 as Code].map((code) => new ConnectError(`pet ${code}`, code));
  for (const error of [...failures, new TypeError('no such pet')]) {
    failure = error;
    await expect(store.delete('pet-1', signal)).rejects.toThrow();
  }
  const json = await registry.getMetricsAsJSON();
  const labels = json.flatMap(({ values }) => values as { labels: Record<string, string | number> }[]);
  const valuesOf = (name: string) =>
    new Set(labels.map(({ labels }) => labels[name]).filter((value) => value !== undefined));
  const known = ['OK', ...codes.map((code) => Code[code])];
  expect([...valuesOf('grpc_code')].filter((code) => !known.includes(String(code)))).toEqual([]);
  expect([...valuesOf('grpc_method')].sort()).toEqual(WirePetStore.methods.map(({ name }) => name).sort());
  expect([...valuesOf('grpc_service')]).toEqual([WirePetStore.typeName]);
  expect([...valuesOf('grpc_type')].sort()).toEqual(['server_stream', 'unary']);
});
