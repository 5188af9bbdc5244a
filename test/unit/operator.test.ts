import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Applier, type Kind, type KubeObject } from '@echoperator/runtime';
import type { InformerOptions } from '@echoperator/runtime/cache';
import { CronJob } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { ConfigError, readConfig } from '../../src/config.ts';
import { controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { Managed } from './environment/managed.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'operator-'));
});
afterEach(() => rm(folder, { recursive: true }));

test.each([
  ['missing', undefined, 'takes a file that can be read: Error: ENOENT'],
  // Node would trust the public authorities.
  ['empty', '\n', 'takes a file that is not empty'],
])('the controller of pets refuses a %s file of the authority', async (_, content, problem) => {
  const file = join(folder, 'ca.crt');
  if (content !== undefined) await writeFile(file, content);
  const config = readConfig({ PETSTORE_TLS: 'true', PETSTORE_CA_FILE: file });
  const add = () => controllers.pet.add({ metrics: {} } as never, config);
  expect(add).toThrow(ConfigError);
  expect(add).toThrow(`PETSTORE_CA_FILE: got ${JSON.stringify(file)}, ${problem}`);
});

/** Adds the controllers of these settings. @returns the options of the cache of each kind */
async function cachesWith(environment: Readonly<Record<string, string>>) {
  const config = readConfig(environment);
  const managed = await Managed.start();
  const { manager, registry } = managed;
  const options = new Map<Kind, InformerOptions<KubeObject>>();
  const informer = (kind: Kind, each: InformerOptions<KubeObject> = {}) => {
    options.set(kind, each);
    return manager.informer(kind, each);
  };
  const watching = { informer, controller: () => {}, client: manager.client, log: manager.log };
  const host = { manager: watching, applier: new Applier({ fieldManager: 't' }), events: {}, metrics: { registry } };
  for (const name of config.controllers) await controllers[name].add(host as never, config);
  await managed.close();
  return options;
}

test.each([
  ['echo', true],
  ['echo,scheduledEcho', undefined],
])('with the controllers %s the cache of CronJobs is optional: %p', async (names, optional) => {
  expect((await cachesWith({ CONTROLLERS: names })).get(CronJob)?.optional).toBe(optional);
});

test('of an object of a built-in kind that others control, each cache keeps a bounded part', async () => {
  const options = await cachesWith({ CONTROLLERS: controllerNames.join(','), PSQL_HOST: 'db', PSQL_USER: 'writer' });
  const transforms = [...options]
    .filter(([{ group }]) => !group.includes('.') || group.endsWith('.k8s.io'))
    .map(([{ kind }, { transform }]) => [kind, transform] as const);
  const entries = Array.from({ length: 1000 }, (_, each) => [`x-${each}`, 'x'] as const);
  const ownerReferences = entries.map(([name]) => ({ apiVersion: 'v1', kind: 'ConfigMap', name, uid: name }));
  const maps = { labels: Object.fromEntries(entries), annotations: Object.fromEntries(entries) };
  const times = { creationTimestamp: '2026-01-01T00:00:00Z' };
  const large = { metadata: { name: 'a', uid: 'u', resourceVersion: '1', ...times, ...maps, ownerReferences } };
  const kept = transforms.map(([kind, transform]) => [kind, JSON.stringify(transform?.(large) ?? large).length]);
  expect(kept.map(([kind]) => kind)).toEqual(expect.arrayContaining(['Job', 'PersistentVolumeClaim', 'Pod']));
  expect(kept.filter(([, length]) => Number(length) > 500)).toEqual([]);
});
