import { setTimeout as delay } from 'node:timers/promises';
import type { Client, KubeObject } from '@echoperator/runtime';
import { expect, test } from '@jest/globals';
import { steady } from '../load.ts';

test('an even pace tells when each creation was due, however late the server answers', async () => {
  const client: Pick<Client, 'create'> = {
    create: async <T extends KubeObject>(_: unknown, manifest: unknown) => {
      await delay(50);
      return manifest as T;
    },
  };
  const due: number[] = [];
  const begun = performance.now();
  await steady(client as Client, 'paced-', { perSecond: 100, count: 4 }, (_, dueAtMs) => due.push(dueAtMs));
  const [first = Number.NaN] = due;
  expect(first - begun).toBeLessThan(50);
  expect(due.map((at) => Math.round(at - first))).toEqual([0, 10, 20, 30]);
});
