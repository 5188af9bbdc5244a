import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CustomKind, findCondition, type Operator } from '@echoperator/runtime';
import type { CustomObject, DefinedController } from '@echoperator/runtime/controller';
import { ConfigMap, Secret } from '@echoperator/runtime/kinds';
import { type Simulation, simulate } from '@echoperator/testing/simulation';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { codeBlocks } from '../../testkit/markdown.ts';
import { makePageFolder } from '../../testkit/page-folder.ts';
import { typeErrors } from './environment/type-check.ts';

/** The kind of the page. */
type Site = CustomObject<
  { readonly secret?: string; readonly pages: readonly string[] },
  { readonly token?: string },
  { readonly secret?: string; readonly pages?: readonly string[] }
>;

const page = join(import.meta.dirname, '../../docs/recipes.md');
const key = { namespace: 'default', name: 'a' };

let folder: string;
let files: Readonly<Record<string, string>>;
let Site: CustomKind<Site>;

beforeAll(async () => {
  const [introduction = '', ...sections] = (await readFile(page, 'utf8')).split(/^## /m);
  const codeOf = (section: string): string => codeBlocks(section).find(({ language }) => language === 'ts')?.text ?? '';
  files = Object.fromEntries([
    ['site.ts', codeOf(introduction)],
    ...sections.map((section) => [fileOf(section.split('\n')[0] ?? ''), codeOf(section)] as const),
  ]);
  folder = await makePageFolder();
  for (const [name, code] of Object.entries(files)) await writeFile(join(folder, name), code);
  ({ Site } = await import(join(folder, 'site.ts')));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const fileOf = (heading: string): string => `${heading.toLowerCase().replaceAll(/\W+/g, '-')}.ts`;

const recipe = <T = { readonly sites: DefinedController }>(heading: string): Promise<T> =>
  import(join(folder, fileOf(heading)));

const readyOf = (simulation: Simulation): string | undefined =>
  findCondition(simulation.objects(Site)[0]?.status?.conditions, 'Ready')?.reason;
const messageOf = (simulation: Simulation): string | undefined =>
  findCondition(simulation.objects(Site)[0]?.status?.conditions, 'Ready')?.message;

test('every recipe has code, and the code type-checks', async () => {
  expect(Object.keys(files).length).toBeGreaterThan(12);
  expect(Object.entries(files).filter(([, code]) => code === '')).toEqual([]);
  expect(await typeErrors(files, { declaration: false })).toBe('');
});

test('Read without the cache: an object that appears is found by the requeue', async () => {
  const { sites } = await recipe('Read without the cache');
  await simulate({ controllers: [sites] }, async (simulation) => {
    await simulation.client.create(Site, { metadata: key, spec: { secret: 'token' } });
    await simulation.settle();
    expect(readyOf(simulation)).toBe('TokenMissing');
    await simulation.client.create(Secret, { metadata: { ...key, name: 'token' } });
    await simulation.settle();
    expect(readyOf(simulation)).toBe('TokenMissing');
    await simulation.advance(60_000);
    expect(readyOf(simulation)).toBe('Published');
  });
});

test('Watch one object by name: only this object is cached, and it enqueues the sites', async () => {
  const { sites } = await recipe('Watch one object by name');
  await simulate({ controllers: [sites] }, async (simulation) => {
    await simulation.client.create(Site, { metadata: key, spec: {} });
    await simulation.client.create(Secret, { metadata: { ...key, name: 'another' } });
    await simulation.settle();
    expect(readyOf(simulation)).toBe('TokenMissing');
    await simulation.client.create(Secret, { metadata: { ...key, name: 'shared-token' } });
    await simulation.settle();
    expect(readyOf(simulation)).toBe('Published');
    const [process] = simulation.processes;
    const informer = process?.operator.manager.inspect().informers.find(({ kind }) => kind.kind === 'Secret');
    expect(informer?.store.list().map(({ metadata }) => metadata.name)).toEqual(['shared-token']);
  });
});

test('React to an object that the spec names: only its metadata is cached', async () => {
  const { sites } = await recipe('React to an object that the spec names, and cache only its metadata');
  await simulate({ controllers: [sites] }, async (simulation) => {
    await simulation.client.create(Site, { metadata: key, spec: { secret: 'token' } });
    await simulation.settle();
    expect(readyOf(simulation)).toBe('TokenMissing');
    await simulation.client.create(Secret, { metadata: { ...key, name: 'token' }, data: { a: 'YQ==' } });
    await simulation.settle();
    expect(messageOf(simulation)).toBe('the token has 1 fields');
    const [process] = simulation.processes;
    const informer = process?.operator.manager.inspect().informers.find(({ kind }) => kind.kind === 'Secret');
    expect(informer?.store.list()).toHaveLength(1);
    expect(informer?.store.list()[0]).not.toHaveProperty('data');
    await simulation.client.delete(Secret, { ...key, name: 'token' });
    await simulation.settle();
    expect(readyOf(simulation)).toBe('TokenMissing');
  });
});

test('Work outside of reconciles: the task writes every minute until the operator stops', async () => {
  const { addHeartbeat } = await recipe<{ addHeartbeat(operator: Operator): void }>('Work outside of reconciles');
  const { sites } = await recipe('Run code once before the first reconcile');
  const withHeartbeat: DefinedController = Object.assign(Object.create(sites), {
    kind: sites.kind,
    add(host: Operator) {
      addHeartbeat(host);
      return sites.add(host);
    },
  });
  await simulate({ controllers: [withHeartbeat] }, async (simulation) => {
    await simulation.settle();
    const before = simulation.objects(ConfigMap)[0]?.data?.at;
    await simulation.advance(60_000);
    const after = simulation.objects(ConfigMap)[0]?.data?.at;
    expect(Date.parse(after ?? '') - Date.parse(before ?? '')).toBeGreaterThanOrEqual(60_000);
  });
});

test('Run code once before the first reconcile: the caches have synced', async () => {
  const { sites } = await recipe('Run code once before the first reconcile');
  const before = (client: Simulation['client']) => client.create(Site, { metadata: key, spec: {} });
  await simulate({ controllers: [sites], before }, async (simulation) => {
    await simulation.client.create(Site, { metadata: { ...key, name: 'b' }, spec: {} });
    await simulation.settle();
    expect(simulation.objects(Site).map((site) => findCondition(site.status?.conditions, 'Ready')?.message)).toEqual([
      '1 sites at the start',
      '1 sites at the start',
    ]);
  });
});

test('Reconcile on a timer: the key runs again after the delay', async () => {
  const { sites } = await recipe('Reconcile on a timer');
  await simulate({ controllers: [sites] }, async (simulation) => {
    await simulation.client.create(Site, { metadata: key, spec: {} });
    await simulation.settle();
    const minuteOf = () => simulation.objects(ConfigMap)[0]?.data?.minute;
    expect(minuteOf()).toBe('2030-01-01T00:00');
    await simulation.advance(180_000);
    expect(minuteOf()).toBe('2030-01-01T00:03');
  });
});

test('Maintain several children: those that the list lacks are deleted', async () => {
  const { sites } = await recipe('Maintain several children, and delete the others');
  await simulate({ controllers: [sites] }, async (simulation) => {
    const childrenOf = () => simulation.objects(ConfigMap).map(({ metadata }) => metadata.name);
    await simulation.client.create(Site, { metadata: key, spec: { pages: ['x', 'y'] } });
    await simulation.settle();
    expect(childrenOf()).toEqual(['a-x', 'a-y']);
    await simulation.client.patch(Site, key, { type: 'merge', body: { spec: { pages: ['y', 'z'] } } });
    await simulation.settle();
    expect(childrenOf()).toEqual(['a-y', 'a-z']);
  });
});

test('Undo what is outside of the cluster: a deleted object stays until the external system has removed it', async () => {
  const published = new Map<string, readonly string[]>();
  const host = {
    isDown: false,
    publish: async (id: string, pages: readonly string[]) => void published.set(id, pages),
    remove: async (id: string) => {
      if (host.isDown) throw new Error('down');
      published.delete(id);
    },
  };
  const { sitesOn } = await recipe<{ sitesOn(on: typeof host): DefinedController }>(
    'Undo what is outside of the cluster',
  );
  await simulate({ controllers: [sitesOn(host)] }, async (simulation) => {
    await simulation.client.create(Site, { metadata: key, spec: { pages: ['x'] } });
    await simulation.settle();
    expect([...published.values()]).toEqual([['x']]);
    host.isDown = true;
    await simulation.client.delete(Site, key);
    await simulation.advance(10_000);
    expect(simulation.objects(Site)).toHaveLength(1);
    host.isDown = false;
    await simulation.advance(60_000);
    expect(simulation.objects(Site)).toEqual([]);
    expect(published.size).toBe(0);
  });
});

test('Limit rates: the external system gets two calls at a time', async () => {
  let running = 0;
  let most = 0;
  const publish = async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => void setTimeout(resolve, 1000));
    running -= 1;
  };
  const { limitedSites } = await recipe<{ limitedSites(call: typeof publish): DefinedController }>(
    'Limit rates, and prefer changes',
  );
  await simulate({ controllers: [limitedSites(publish)] }, async (simulation) => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      await simulation.client.create(Site, { metadata: { ...key, name }, spec: {} });
    }
    await simulation.advance(10_000);
    expect(simulation.objects(Site).map((site) => findCondition(site.status?.conditions, 'Ready')?.status)).toEqual(
      Array.from({ length: 5 }, () => 'True'),
    );
    expect(most).toBe(2);
  });
});

test('Export metrics of your own: the metric is in the registry of the operator', async () => {
  const { sites } = await recipe('Export metrics of your own');
  await simulate({ controllers: [sites] }, async (simulation) => {
    await simulation.client.create(Site, { metadata: key, spec: { pages: ['x', 'y'] } });
    await simulation.settle();
    const registry = simulation.processes[0]?.operator.metrics.registry;
    expect(await registry?.getSingleMetricAsString('publisher_pages_total')).toContain('publisher_pages_total 2');
  });
});

test('Ignore some changes: a label enqueues nothing, the annotation does', async () => {
  const { sites } = await recipe('Ignore some changes');
  await simulate({ controllers: [sites] }, async (simulation) => {
    await simulation.client.create(Site, { metadata: key, spec: {} });
    await simulation.settle();
    await simulation.client.patch(Site, key, { type: 'merge', body: { metadata: { labels: { a: 'b' } } } });
    await simulation.settle();
    expect(messageOf(simulation)).toBe('publication 1');
    const annotations = { 'example.com/publish-again': 'now' };
    await simulation.client.patch(Site, key, { type: 'merge', body: { metadata: { annotations } } });
    await simulation.settle();
    expect(messageOf(simulation)).toBe('publication 2');
  });
});
