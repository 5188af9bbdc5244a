import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { customResourceDefinition } from '@echoperator/runtime';
import { ApiServer } from '@echoperator/testing';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { apiServerPrograms } from '../../testkit/api-server-programs.ts';
import { freePorts } from '../../testkit/free-ports.ts';
import { compareHistories, Shapes } from './environment/field-managers-property.ts';

// A server of its own, because controllers would write to the Deployments.
let folder: string;
let server: ApiServer;

beforeAll(async () => {
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'field-managers-'));
  const [port] = await freePorts();
  const crds = [customResourceDefinition(Shapes)];
  server = await ApiServer.start({ assets: await apiServerPrograms(folder), folder, port, crds, stopTimeoutMs: 1_000 });
});
afterAll(async () => {
  await server?.close();
  await rm(folder, { recursive: true });
});

test('the simulated field managers own, merge and refuse what those of the API server do', async () => {
  const counts = await compareHistories(server, { seed: 1, histories: 50 });
  console.log(`steps: ${JSON.stringify(counts)}`);
  expect(counts.changed).toBeGreaterThan(100);
  expect(counts.unchanged).toBeGreaterThan(5);
  expect(counts.conflict).toBeGreaterThan(20);
});
