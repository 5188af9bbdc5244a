import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { done } from '@echoperator/runtime';
import type { OperatorObserver } from '@echoperator/runtime/process';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { SpanKind, SpanStatusCode, type Tracer } from '@opentelemetry/api';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { combineObservers } from '../../packages/runtime/src/observer/combine-observers.ts';
import { eventually } from '../../testkit/eventually.ts';
import { codeBlocks } from '../../testkit/markdown.ts';
import { makePageFolder } from '../../testkit/page-folder.ts';
import { stored, Widget, widgetsPath } from '../../testkit/widgets.ts';
import { guideFiles } from '../package/environment/guide.ts';
import { Managed } from './environment/managed.ts';
import { typeErrors } from './environment/type-check.ts';

const page = join(import.meta.dirname, '../../docs/recipes-opentelemetry.md');
const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
let folder: string;
let blocks: readonly string[];
let tracingObserver: (tracer: Tracer) => OperatorObserver;
let managed: Managed | undefined;

beforeAll(async () => {
  blocks = codeBlocks(await readFile(page, 'utf8')).flatMap(({ language, text }) => (language === 'ts' ? [text] : []));
  folder = await makePageFolder();
  const file = join(folder, 'tracing.ts');
  await writeFile(file, blocks[0] ?? '');
  ({ tracingObserver } = await import(file));
});
afterEach(() => managed?.close());
afterAll(async () => {
  await provider.shutdown();
  await rm(folder, { recursive: true, force: true });
});

test('the code of the page type-checks', async () => {
  const [tracing = '', main = ''] = blocks;
  const { 'greeter.ts': greeter = '' } = guideFiles;
  // The greeter exports inferred types.
  const options = { declaration: false };
  expect(await typeErrors({ 'tracing.ts': tracing, 'main.ts': main, 'greeter.ts': greeter }, options)).toBe('');
});

test('each reconcile is a span, and each of its requests is a child of it', async () => {
  const tracing = tracingObserver(provider.getTracer('test'));
  const another = tracingObserver(provider.getTracer('another'));
  managed = await Managed.start({ observer: combineObservers([tracing, another]) });
  managed.manager.controller(Widget, {
    retries: { initialBackoffMs: 60_000 },
    reconcile: async (key, { client }) => {
      await client.get(Widget, key);
      await client.delete(Widget, key);
      return done;
    },
  });
  managed.run();
  await managed.sync({ [widgetsPath]: { resourceVersion: '10', items: [stored('a', '1')] } });
  (await managed.server.next({ method: 'GET', watch: false })).json(200, stored('a', '1'));
  (await managed.server.next({ method: 'DELETE' })).refuse(403, 'Forbidden');
  await eventually('the spans have ended', async () => exporter.getFinishedSpans().length >= 6);
  const spans = exporter.getFinishedSpans();
  expect(spans.filter(({ instrumentationScope }) => instrumentationScope.name === 'another')).toHaveLength(3);
  const [get, deletion, reconcile] = spans.filter(({ instrumentationScope }) => instrumentationScope.name === 'test');
  expect(reconcile).toMatchObject({
    name: 'reconcile Widget',
    attributes: { controller: 'widget', key: 'default/a', retries: 0, cause: 'delta', outcome: 'error' },
    status: { code: SpanStatusCode.ERROR },
    events: [{ name: 'exception' }],
  });
  expect(reconcile?.parentSpanContext).toBeUndefined();
  const parentSpanContext = { spanId: reconcile?.spanContext().spanId };
  expect(get).toMatchObject({
    name: 'get Widget',
    kind: SpanKind.CLIENT,
    parentSpanContext,
    attributes: { verb: 'get', plural: 'widgets', name: 'a', namespace: 'default' },
    status: { code: SpanStatusCode.UNSET },
  });
  expect(deletion).toMatchObject({ name: 'delete Widget', parentSpanContext, status: { code: SpanStatusCode.ERROR } });
  const [startedMs = 0, endedMs = 0] = [reconcile?.startTime, reconcile?.endTime].map(
    ([seconds, nanoseconds] = [0, 0]) => seconds * 1000 + nanoseconds / 1e6,
  );
  // The times of `performance.now` are converted to those of the clock.
  expect(Math.abs(Date.now() - endedMs)).toBeLessThan(60_000);
  expect(endedMs).toBeGreaterThan(startedMs);
});
