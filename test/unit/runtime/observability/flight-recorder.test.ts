import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ObjectKey } from '@echoperator/runtime';
import { ApiError, type ClientRequest, NoResponseError } from '@echoperator/runtime/client';
import type { Cause } from '@echoperator/runtime/process';
import { FlightRecorder, formatExplanation, type ObservedController } from '@echoperator/runtime/process';
import { describe, expect, test } from '@jest/globals';
import { differencesOf } from '../../../../packages/runtime/src/apply/difference.ts';
import { DeltaCauses } from '../../../../packages/runtime/src/controller/delta-causes.ts';
import { Echo } from '../../../../src/kinds/echo/kind.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';

type State = ReturnType<ObservedController['stateOf']>;

const idle: State = {
  waitingSinceMs: undefined,
  cause: undefined,
  isProcessing: false,
  dueAtMs: undefined,
  dueCause: undefined,
  failures: 0,
  isInScope: true,
  isCached: true,
  isFiltered: false,
};

const secret = 'hunter2';

/** A recorder with one controller, of Widgets. */
function recording(
  options: { readonly maxBytes?: number } = {},
  state: Partial<State> = {},
  keys: readonly ObjectKey[] = [],
) {
  const recorder = new FlightRecorder(options);
  const stateOf = () => ({ ...idle, ...state });
  const unfinished = () => keys.map((key) => ({ key, sinceMs: 0 }));
  const observer = recorder.controller({
    name: 'widget',
    kind: Widget,
    predicate: 'generationChanged',
    stateOf,
    unfinished,
  });
  const start = (name: string, retries = 0) =>
    observer.started(`default/${name}`, performance.now(), undefined, retries);
  const end = (trace: ReturnType<typeof start>, error?: unknown) =>
    trace.ended(error === undefined ? 'success' : 'error', undefined, error, {
      endedAtMs: performance.now(),
      nextAtMs: undefined,
    });
  const create = (trace: ReturnType<typeof start>, name: string, error?: unknown) =>
    trace
      .requested({ verb: 'create', kind: Part, key: { namespace: 'default', name } }, performance.now())
      .responded(error);
  const explained = (name: string) => recorder.explain({ kind: 'Widget', namespace: 'default', name });
  const told = (name: string) => {
    const explanation = explained(name);
    return formatExplanation({ ...(explanation && { explanation }), notes: [] });
  };
  /** A reconcile that creates a Part. */
  const reconcile = (name: string, error?: unknown) => {
    const trace = start(name);
    create(trace, `part-of-${name}`, error);
    end(trace, error);
  };
  return { recorder, observer, start, end, create, explained, told, reconcile };
}

test.each(['Echo', 'echo', 'echos', 'echos.mmontes.io', 'ec'])('a kind is found by the name %s', (kind) => {
  const recorder = new FlightRecorder();
  const unfinished = () => [];
  recorder.controller({ name: 'echo', kind: Echo, predicate: undefined, stateOf: () => idle, unfinished });
  expect(recorder.explain({ kind, namespace: 'default', name: 'hello' })?.kind).toBe('Echo');
  expect(recorder.explain({ kind: 'e', namespace: 'default', name: 'hello' })).toBeUndefined();
});

const refusal = (message: string, causes: readonly object[] = []): ApiError =>
  new ApiError('POST /apis/test.example/v1/namespaces/default/parts', 403, {
    code: 403,
    reason: 'Forbidden',
    message,
    details: { causes },
  });

describe('the recorder keeps', () => {
  test('the last 5 reconciles of a key, and how many there were', () => {
    const { reconcile, explained } = recording();
    for (let i = 0; i < 7; i += 1) reconcile('a', Object.assign(new Error('no'), { code: i }));
    expect(explained('a')).toMatchObject({ total: 7, reconciles: { length: 5 } });
    expect(explained('a')?.reconciles.at(-1)?.error).toBe('Error 6');
  });

  test('a reconcile that sent something for longer than one that did not', () => {
    const { observer, end, reconcile, explained } = recording();
    reconcile('a');
    for (let i = 0; i < 10; i += 1) {
      const cause = {
        type: 'delta',
        kind: 'Part',
        change: 'modified',
        origin: 'watch',
        paths: [`status.part${i}`],
        by: undefined,
      } as const;
      end(
        observer.started(
          'default/a',
          performance.now(),
          { cause, addedAtMs: 0, furtherAdds: 0, furtherCauses: undefined },
          0,
        ),
      );
    }
    expect(explained('a')?.reconciles.map(({ steps }) => steps.length)).toEqual([1, 0, 0, 0, 0]);
  });

  test('a reconcile that changed an object for longer than those that wrote a status or read', () => {
    const { start, end, reconcile, explained } = recording();
    const ordinary = (verb: 'patch' | 'get', i: number) => {
      const trace = start('a');
      const subresource = verb === 'patch' ? 'status' : undefined;
      const request = {
        verb,
        kind: Widget,
        key: { namespace: 'default', name: `a${i}` },
        subresource,
      } as ClientRequest;
      trace.requested(request, performance.now()).responded(undefined);
      end(trace);
    };
    reconcile('a');
    for (let i = 0; i < 10; i += 1) ordinary(i % 2 === 0 ? 'patch' : 'get', i);
    expect(explained('a')?.reconciles.map(({ steps: [step] }) => step?.verb)).toEqual([
      'create',
      'patch',
      'get',
      'patch',
      'get',
    ]);
  });

  test('a reconcile that failed to read for longer than those that read', () => {
    const { start, end, explained } = recording();
    const read = (name: string, error?: unknown) => {
      const trace = start('a');
      const request = { verb: 'get', kind: Part, key: { namespace: 'default', name } } as const;
      trace.requested(request, performance.now()).responded(error);
      end(trace, error);
    };
    read('failed', refusal('no'));
    for (let i = 0; i < 10; i += 1) read(`read-${i}`);
    expect(explained('a')?.reconciles.map(({ error }) => error !== undefined)).toEqual([
      true,
      false,
      false,
      false,
      false,
    ]);
  });

  test('a reconcile whose last requests are not listed for longer than one that only wrote a status', () => {
    const { start, end, create, explained } = recording();
    const trace = start('a');
    for (let i = 0; i < 25; i += 1) trace.unchanged(Part, { name: `part-${i}` });
    create(trace, 'part');
    end(trace);
    const statusOnly = (name: string) => {
      const later = start('a');
      for (let i = 0; i < 19; i += 1) later.unchanged(Part, { name: `part-${i}` });
      later
        .requested({ verb: 'patch', kind: Widget, key: { name }, subresource: 'status' }, performance.now())
        .responded(undefined);
      for (let i = 0; i < 5; i += 1) later.unchanged(Part, { name: `more-${i}` });
      end(later);
    };
    for (let i = 0; i < 10; i += 1) statusOnly(`a-${i}`);
    expect(explained('a')?.reconciles.map(({ furtherSteps }) => furtherSteps)).toEqual([6, 5, 5, 5, 5]);
  });

  test('reconciles alike as one, the last of them, with their number', () => {
    const { start, end, reconcile, explained, told } = recording();
    for (let i = 0; i < 40; i += 1) {
      reconcile('busy');
      end(start('busy'));
    }
    reconcile('busy', refusal('no'));
    expect(explained('busy')?.reconciles).toMatchObject([
      { repeated: { times: 39 }, steps: [{ response: 'ok' }] },
      { repeated: { times: 39 }, steps: [] },
      { steps: [{ response: '403' }] },
    ]);
    expect(told('busy')).toMatch(/also 39 times since \d\d:/);
  });

  test('at most its bytes: the key that was reconciled least recently goes first', () => {
    const { recorder, reconcile, explained } = recording({ maxBytes: 20_000 });
    reconcile('first');
    for (let i = 0; i < 10; i += 1) reconcile(`old-${i}`);
    reconcile('first');
    for (let i = 0; explained('old-9')?.total === 1; i += 1) reconcile(`new-${i}`);
    expect(recorder.bytes).toBeLessThanOrEqual(20_000);
    expect(explained('old-0')?.reconciles).toEqual([]);
    expect(explained('first')?.reconciles).toMatchObject([{ repeated: { times: 1 } }]);
    expect(explained('new-0')?.reconciles).toHaveLength(1);
  });

  test('what was done, although many others are reconciled and nothing is done', () => {
    const { recorder, start, end, reconcile, explained } = recording({ maxBytes: 20_000 });
    reconcile('a');
    for (let i = 0; i < 1000; i += 1) end(start(`minor-${i}`));
    expect(explained('a')?.reconciles).toMatchObject([{ steps: [{ name: 'part-of-a' }] }]);
    expect(explained('minor-0')?.reconciles).toHaveLength(1);
    expect(explained('minor-999')?.reconciles).toEqual([]);
    // Not all of the room is theirs: what is done is recorded.
    reconcile('minor-999');
    expect(explained('minor-999')?.reconciles).toHaveLength(1);
    expect(recorder.bytes).toBeLessThanOrEqual(20_000);
  });

  test('a reconcile that runs, although there was no room for the one before it', () => {
    const { start, end, create, reconcile, explained } = recording({ maxBytes: 20_000 });
    for (let i = 0; i < 1000; i += 1) reconcile(`other-${i}`);
    for (let i = 0; i < 1000; i += 1) end(start(`minor-${i}`));
    end(start('a'));
    expect(explained('a')?.reconciles).toEqual([]);
    const running = start('a');
    expect(explained('a')?.reconciles).toHaveLength(1);
    create(running, 'p');
    end(running);
    expect(explained('a')?.reconciles).toMatchObject([{ steps: [{ name: 'p' }] }]);
  });

  test('the records of a key that is being reconciled, although others need its bytes', () => {
    const { recorder, start, end, create, explained, reconcile } = recording(
      { maxBytes: 20_000 },
      { isProcessing: true },
    );
    reconcile('hangs');
    const hangs = start('hangs');
    hangs.requested({ verb: 'get', kind: Part, key: { name: 'p' } }, performance.now());
    for (let i = 0; i < 100; i += 1) reconcile(`other-${i}`);
    expect(recorder.bytes).toBeLessThanOrEqual(20_000);
    expect(explained('hangs')?.now).toContain('get Part p without a response for');
    create(hangs, 'q');
    end(hangs);
    expect(explained('hangs')?.reconciles).toMatchObject([
      { steps: [{ name: 'part-of-hangs' }] },
      { steps: [{ name: 'p' }, { name: 'q' }] },
    ]);
    for (let i = 0; i < 100; i += 1) reconcile(`other-${i}`);
    expect(explained('hangs')?.reconciles).toEqual([]);
  });

  test('all that run, even if they need more than its bytes', () => {
    const { start, end, explained, reconcile } = recording({ maxBytes: 4_000 }, { isProcessing: true });
    const running = Array.from({ length: 20 }, (_, i) => `running-${i}`);
    const traces = running.map((name) => start(name));
    expect(running.map((name) => explained(name)?.reconciles.length)).toEqual(running.map(() => 1));
    for (const trace of traces) end(trace);
    for (let i = 0; i < 20; i += 1) reconcile(`other-${i}`);
    expect(running.map((name) => explained(name)?.total)).toEqual(running.map(() => 0));
  });

  test('nothing more of a reconcile that is alike', () => {
    const { recorder, reconcile } = recording();
    reconcile('a');
    const { bytes } = recorder;
    reconcile('a');
    expect(recorder.bytes).toBe(bytes);
  });

  test('20 steps of a reconcile, and the number of the others', () => {
    const { start, end, create, explained } = recording();
    const trace = start('many');
    for (let i = 0; i < 50; i += 1) create(trace, `part-${i}`);
    end(trace);
    const [reconcile] = explained('many')?.reconciles ?? [];
    expect(reconcile?.steps).toHaveLength(20);
    expect(reconcile?.furtherSteps).toBe(30);
  });

  test('nothing of a request that is sent after the reconcile has ended', () => {
    const { recorder, start, end, create, explained } = recording();
    const trace = start('late');
    end(trace);
    const { bytes } = recorder;
    create(trace, 'part');
    expect(explained('late')?.reconciles).toMatchObject([{ steps: [] }]);
    expect(recorder.bytes).toBe(bytes);
  });

  test('nothing of a controller that was removed, also if it still reconciles', () => {
    const { recorder, start, end, reconcile } = recording();
    reconcile('a');
    const trace = start('b');
    recorder.controllerRemoved('widget');
    expect(recorder.bytes).toBe(0);
    end(trace);
    expect(recorder.bytes).toBe(0);
  });

  const long = 'x'.repeat(10_000);

  /** What users can choose: names, fields, field managers, the words of a webhook. */
  const hostileDelta = (id: string): Cause => ({
    type: 'delta',
    kind: 'Part',
    change: 'modified',
    origin: 'watch',
    paths: Array.from({ length: 4 }, (_, i) => `metadata.annotations[${i}.${id}${long}]`),
    by: `${id}ä日${long}`,
  });

  const hostile = ({ observer, create, end }: ReturnType<typeof recording>, name: string, id: string): void => {
    const queued = { cause: hostileDelta(`${id}0`), addedAtMs: 0, furtherAdds: 4 };
    const furtherCauses = [1, 2, 3, 4].map((i) => hostileDelta(`${id}${i}`));
    const trace = observer.started(`default/${name}`, performance.now(), { ...queued, furtherCauses }, 0);
    for (let i = 0; i < 30; i += 1) {
      trace.differs(Array.from({ length: 4 }, (_, j) => ({ path: `.spec.${id}${i}${j}${long}` })));
      trace.requested({ verb: 'apply', kind: Part, key: { name: `${id}${i}${long}` } }, performance.now());
      create(trace, `${id}${i}${long}`);
    }
    trace.reported(`${id}${long}`);
    const webhook = `admission webhook "${id}.policy.webhooks.example.com" denied the request: ${id}${long}`;
    end(
      trace,
      refusal(
        webhook,
        Array.from({ length: 100 }, (_, i) => ({ field: `spec.${id}.${i}${'f'.repeat(150)}` })),
      ),
    );
    observer.filtered(`default/${name}`, hostileDelta(`${id}filtered`));
  };

  test('at most 500 characters of a text, and 80 kB of a reconcile, whatever users name', () => {
    const all = recording();
    hostile(all, 'a', 'id');
    expect(all.recorder.bytes).toBeLessThan(80_000);
    const [reconcile] = all.explained('a')?.reconciles ?? [];
    expect(reconcile?.steps[1]?.name).toBe(`id0${'x'.repeat(497)}…`);
    expect(reconcile?.steps[0]?.paths?.join(', ')).toHaveLength(501);
    expect(reconcile?.error).toHaveLength(501);
    expect(reconcile?.error).toMatch(/^403 Forbidden; webhook id.policy.webhooks.example.com denies it; fields /);
    expect(reconcile?.reason).toHaveLength(501);
    expect(reconcile?.why).toContain(`by id0ä日${'x'.repeat(495)}…; Part modified (metadata.annotations[0.id1xx`);
  });

  test.each<[string, (all: ReturnType<typeof recording>, name: string) => void]>([
    [
      'usual',
      ({ start, create, end }, name) => {
        const trace = start(name);
        create(trace, `part-of-${name}`);
        create(trace, `another-part-of-${name}`);
        trace.unchanged(Part, { name: `third-part-of-${name}` });
        end(trace);
      },
    ],
    ['hostile', (all, name) => hostile(all, name, name)],
    [
      'refused',
      ({ start, end }, name) =>
        end(
          start(name),
          refusal(`admission webhook "${name}.webhooks.example.com" denied the request: ${name}${long}`),
        ),
    ],
    [
      'only filtered',
      ({ observer, reconcile }, name) => {
        reconcile(name);
        observer.filtered(`default/${name}`, hostileDelta(name));
      },
    ],
  ])('no more memory than its limit for %s reconciles', (_, reconcileOnce) => {
    setFlagsFromString('--expose-gc');
    const collect: () => void = runInNewContext('gc');
    const maxBytes = 4 * 1024 * 1024;
    const all = recording({ maxBytes });
    collect();
    const before = process.memoryUsage().heapUsed;
    const isKept = (index: number) => all.explained(`widget-${index}`)?.reconciles.length === 1;
    let count = 0;
    for (; count === 0 || isKept(0); count += 1) reconcileOnce(all, `widget-${count}`);
    for (let i = 0; i < count; i += 1) reconcileOnce(all, `another-${i}`);
    collect();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(maxBytes);
    expect(all.recorder.bytes).toBeLessThanOrEqual(maxBytes);
    expect(all.recorder.bytes).toBeGreaterThan(maxBytes * 0.9);
  });
});

describe('an explanation', () => {
  test('tells the requests with their answers, what was not sent, and how it ended', () => {
    const { observer, create, explained, told } = recording();
    const startedAtMs = performance.now();
    const cause = {
      type: 'delta',
      kind: 'Part',
      change: 'modified',
      origin: 'watch',
      paths: ['spec.size'],
      by: 'kubectl-edit',
    } as const;
    const queued = { cause, addedAtMs: startedAtMs - 12, furtherAdds: 2, furtherCauses: [{ type: 'resync' }] } as const;
    const trace = observer.started('default/a', startedAtMs, queued, 0);
    create(trace, 'one');
    trace.differs(['.spec.size', '.spec.names[x].y', '.metadata.labels[a.b/c]', '.a', '.b'].map((path) => ({ path })));
    trace.requested({ verb: 'apply', kind: Part, key: { name: 'three' } }, startedAtMs).responded(undefined);
    trace.unchanged(Part, { name: 'two' });
    trace.reported('PartRefused');
    const patch = { metadata: { resourceVersion: '1' }, status: { phase: secret, conditions: [{ message: secret }] } };
    trace
      .requested({ verb: 'patch', kind: Widget, key: { name: 'a' }, subresource: 'status', body: patch }, startedAtMs)
      .responded(new NoResponseError('PATCH /a', new Error(secret), true));
    const quota = 'parts "one" is forbidden: exceeded quota: few, requested: count/parts=1, used: 3, limited: 3';
    const times = { endedAtMs: startedAtMs + 30, nextAtMs: startedAtMs + 1000 };
    trace.ended('error', undefined, refusal(quota), times);
    expect(explained('a')?.reconciles).toMatchObject([
      {
        why: 'Part modified (spec.size) by kubectl-edit; resync; and 1 more',
        queuedMs: 12,
        steps: [
          { verb: 'create', kind: 'Part', name: 'one', response: 'ok' },
          { verb: 'apply', name: 'three', paths: ['spec.size', 'spec.names[].y', 'metadata.labels[a.b/c]', 'a', '…'] },
          { verb: 'unchanged', kind: 'Part', name: 'two' },
          {
            verb: 'patch',
            kind: 'Widget',
            name: 'a',
            subresource: 'status',
            paths: ['status.phase', 'status.conditions'],
            response: 'no response',
          },
        ],
        outcome: 'error',
        reason: 'PartRefused',
        error: '403 Forbidden; quota few is exceeded for count/parts',
      },
    ]);
    const text = told('a');
    expect(text).toContain('Part modified (spec.size) by kubectl-edit; resync; and 1 more (queued for 12 ms)');
    expect(text).toContain('Part two is as desired: nothing sent');
    expect(text).toContain('patch Widget a status (status.phase, status.conditions): no response');
    expect(text).not.toContain(secret);
    expect(text).toMatch(/failed after 30 ms; PartRefused; 403 Forbidden; quota few .*; again at \d\d:\d\d:/);
  });

  test('of a reconcile that has ended says what it said while the reconcile ran', () => {
    const { observer, create, explained } = recording({}, { isProcessing: true });
    const delta = (kind: string): Cause => ({
      type: 'delta',
      kind,
      change: 'modified',
      origin: 'response',
      paths: ['spec.size'],
      by: undefined,
    });
    const startedAtMs = performance.now();
    const trace = observer.started(
      'default/a',
      startedAtMs,
      {
        cause: delta('Part'),
        addedAtMs: startedAtMs - 100,
        furtherAdds: 3,
        furtherCauses: [{ type: 'resync' }, delta('Widget')],
      },
      2,
    );
    const patch = { spec: { size: 1, 'a%/': 2 } };
    trace
      .requested({ verb: 'patch', kind: Part, key: { name: 'ä…日' }, body: patch }, startedAtMs - 5)
      .responded(undefined);
    trace
      .requested({ verb: 'list', kind: Part }, startedAtMs)
      .responded(new NoResponseError('GET /', new Error(), true));
    trace
      .requested({ verb: 'get', kind: Part, key: { name: 'b' }, subresource: 'scale' }, startedAtMs)
      .responded(undefined);
    trace.unchanged(Part, { name: 'c' });
    for (let i = 0; i < 20; i += 1) create(trace, `part-${i}`, refusal('no'));
    const [running] = explained('a')?.reconciles ?? [];
    trace.ended('requeue_after', 'timeout', undefined, { endedAtMs: startedAtMs + 7, nextAtMs: startedAtMs + 60_000 });
    const [ended] = explained('a')?.reconciles ?? [];
    const at = (iso = '') => Date.parse(iso);
    expect(ended).toEqual({
      ...running,
      at: ended?.at,
      nextAt: ended?.nextAt,
      ms: 7,
      outcome: 'requeue_after',
      failure: 'timeout',
    });
    expect(Math.abs(at(ended?.at) - at(running?.at))).toBeLessThanOrEqual(1);
    expect(Math.abs(at(ended?.nextAt) - at(running?.at) - 60_000)).toBeLessThanOrEqual(2);
    expect(running).toMatchObject({ furtherSteps: 4, queuedMs: 100, why: expect.stringContaining('and 1 more') });
  });

  test('tells that a reconcile ended before its request was answered', () => {
    const { start, end, explained, told } = recording();
    const trace = start('a');
    const request = trace.requested({ verb: 'create', kind: Part, key: { name: 'p' } }, performance.now());
    end(trace);
    request.responded(undefined);
    expect(explained('a')?.reconciles).toMatchObject([{ steps: [{ response: 'none before the reconcile ended' }] }]);
    expect(told('a')).toContain('create Part p: none before the reconcile ended\n');
  });

  test('tells a change that the predicate dropped', () => {
    const { observer, reconcile, explained } = recording();
    const change = (...paths: readonly string[]) =>
      ({ type: 'delta', kind: 'Widget', change: 'modified', origin: 'watch', paths, by: undefined }) as const;
    reconcile('a');
    observer.filtered('default/a', change('metadata.annotations'));
    expect(explained('a')?.ignored?.change).toBe(
      'Widget modified (metadata.annotations); the predicate generationChanged drops such changes',
    );
  });

  test('tells that a change is in no field that the cache keeps', () => {
    const { observer, end, explained } = recording();
    const cause = {
      type: 'delta',
      kind: 'Pod',
      change: 'modified',
      origin: 'watch',
      paths: [],
      by: undefined,
    } as const;
    const queued = { cause, addedAtMs: performance.now(), furtherCauses: undefined, furtherAdds: 0 };
    end(observer.started('default/a', performance.now(), queued, 0));
    expect(explained('a')?.reconciles[0]?.why).toBe('Pod modified (in no field that the cache keeps)');
  });

  test('tells where a reconcile is stuck', () => {
    const { start, explained, told } = recording({}, { isProcessing: true });
    const trace = start('a');
    trace.requested({ verb: 'delete', kind: Part, key: { name: 'p' } }, performance.now() - 12_000);
    expect(explained('a')?.now).toMatch(/^a reconcile runs for \d+ ms: delete Part p without a response for 12\.0 s$/);
    expect(told('a')).toContain('still runs');
  });

  test('tells where a reconcile is stuck after more steps than are listed', () => {
    const { start, create, explained } = recording({}, { isProcessing: true });
    const trace = start('a');
    for (let i = 0; i < 30; i += 1) create(trace, `part-${i}`);
    expect(explained('a')?.now).toContain('no request to the API server is in flight');
    trace.requested({ verb: 'delete', kind: Part, key: { name: 'p' } }, performance.now());
    expect(explained('a')?.now).toContain('delete Part p without a response for');
  });

  test.each<[Partial<State>, string]>([
    [{}, 'waits for a change'],
    [{ isProcessing: true }, 'its reconcile has ended, or its record was dropped: a request has no response'],
    [{ isInScope: false }, 'outside the watched namespaces: the operator does not see it'],
    [{ isCached: false }, 'not in the cache: it does not exist, or the cache has not shown it yet; waits for a change'],
    [{ waitingSinceMs: -1e6, cause: { type: 'takeover' } }, 'queued for 17 min: this replica began to lead'],
    [{ isFiltered: true }, 'the predicate generationChanged drops it; waits for a change'],
    [{ dueAtMs: -1, dueCause: { type: 'retry' }, failures: 4 }, 'waits for retry 4, in 0 ms'],
    [{ dueAtMs: -1, dueCause: { type: 'retry' } }, 'waits for the retry of an earlier failure, in 0 ms'],
    [{ dueAtMs: -1, dueCause: { type: 'requeue' } }, 'waits for its requeue, in 0 ms'],
    [{ dueAtMs: -1, dueCause: { type: 'requeue' }, failures: 1 }, 'waits for its requeue, in 0 ms'],
  ])('of a key without a record in the state %j says why', (state, now) => {
    const shift = performance.now();
    const shifted = (atMs: number | undefined) => (atMs === undefined ? undefined : atMs + shift);
    const { recorder, told } = recording(
      {},
      {
        ...state,
        waitingSinceMs: shifted(state.waitingSinceMs),
        dueAtMs: shifted(state.dueAtMs),
      },
    );
    expect(recorder.explain({ kind: 'widgets.test.example', namespace: 'default', name: 'x' })?.now).toBe(now);
    expect(told('x')).toContain('no reconcile is recorded');
  });

  test('has one line for each step, also of a name that the API server refuses', () => {
    const { start, end, create, told } = recording();
    const trace = start('a');
    create(trace, 'p\nget\tPart', refusal('no'));
    end(trace);
    expect(told('a')).toContain('create Part p\\u000aget\\u0009Part: 403, ');
  });

  test('is undefined for a kind that no controller reconciles', () => {
    const { recorder } = recording();
    expect(recorder.explain({ kind: 'part', namespace: 'default', name: 'x' })).toBeUndefined();
  });
});

test('the activity of a namespace is in order, without reconciles that sent nothing', () => {
  const { recorder, start, end, reconcile } = recording();
  reconcile('b');
  end(start('quiet'));
  reconcile('a', refusal('no'));
  const activity = recorder.explainActivity({ namespace: 'default', withinSeconds: 300 });
  expect(activity.reconciles.map(({ kind, key, steps }) => [kind, key, steps[0]?.response])).toEqual([
    ['Widget', 'default/b', 'ok'],
    ['Widget', 'default/a', '403'],
  ]);
  expect(formatExplanation({ activity, notes: [] })).toMatch(/Widget default\/b: .*\n +create Part part-of-b: ok/);
  expect(recorder.explainActivity({ namespace: 'other', withinSeconds: 300 }).reconciles).toEqual([]);
  expect(recorder.explainActivity({ namespace: 'default', withinSeconds: 0 }).reconciles).toEqual([]);
});

describe('what has not ended is told whenever it began', () => {
  const key = { namespace: 'default', name: 'hangs' };

  test('a reconcile that runs, also one that sent nothing and started earlier', () => {
    const { recorder, start, reconcile } = recording({}, { isProcessing: true }, [key]);
    reconcile('old');
    start('hangs');
    const activity = recorder.explainActivity({ namespace: 'default', withinSeconds: 0 });
    expect(activity.reconciles).toMatchObject([{ kind: 'Widget', key: 'default/hangs', steps: [] }]);
    const now = expect.stringMatching(/^a reconcile runs for \d+ ms: no request to the API server is in flight$/);
    expect(activity.unfinished).toEqual([{ kind: 'Widget', key: 'default/hangs', now }]);
    const told = formatExplanation({ activity });
    expect(told).toContain('still runs');
    expect(told).toMatch(/now: Widget default\/hangs: a reconcile runs for/);
  });

  test('of one namespace, or of all', () => {
    const { recorder, reconcile } = recording({}, {}, [key, { namespace: 'other', name: 'b' }, { name: 'cluster' }]);
    reconcile('a');
    const unfinished = (namespace?: string) =>
      recorder.explainActivity({ ...(namespace !== undefined && { namespace }), withinSeconds: 60 }).unfinished;
    expect(unfinished('other')?.map(({ key }) => key)).toEqual(['other/b']);
    expect(unfinished()?.map(({ key }) => key)).toEqual(['default/hangs', 'other/b', 'cluster']);
    const activity = recorder.explainActivity({ withinSeconds: 60 });
    expect(activity.reconciles).toHaveLength(1);
    expect(formatExplanation({ activity })).toContain('what the operator did in all namespaces in the last 60.0 s');
  });

  test('of at most 100 keys, with the number of the others', () => {
    const keys = Array.from({ length: 150 }, (_, index) => ({ namespace: 'default', name: `${index}` }));
    const { recorder } = recording({}, {}, keys);
    const activity = recorder.explainActivity({ withinSeconds: 60 });
    expect(activity.unfinished).toHaveLength(100);
    expect(activity.furtherUnfinished).toBe(50);
    expect(formatExplanation({ activity })).toContain('and 50 more');
  });
});

describe('the records contain no values', () => {
  test('of the values of an object, a patch, a difference or an error', () => {
    const { recorder, observer, told } = recording();
    const object = (value: string) => ({
      ...stored('a', value, { labels: { app: value }, annotations: { note: value }, finalizers: [value] }),
      spec: { text: value, list: [value], items: [{ name: value }], deep: { a: { b: { c: { d: { e: value } } } } } },
      status: { text: value, conditions: [{ type: 'Ready', message: value }] },
    });
    const [before, after] = [object(`${secret}-1`), object(`${secret}-2`)];
    const fieldsV1 = { 'f:spec': { 'f:text': {}, 'f:list': { [`v:"${secret}-2"`]: {} } } };
    const cause = new DeltaCauses('Widget', () => [{ manager: 'tester', fieldsV1 }]).of(
      { type: 'modified', object: after, previous: before },
      'watch',
    );
    const nowMs = performance.now();
    observer.filtered('default/a', cause);
    const trace = observer.started(
      'default/a',
      nowMs,
      { cause, addedAtMs: nowMs, furtherAdds: 1, furtherCauses: [cause] },
      0,
    );
    const text = { type: 'scalar', keepsZero: false } as const;
    const fields = { list: { type: 'list', merge: 'set', items: text, emptyIsAbsent: false }, text } as const;
    const spec = { type: 'struct', fields, others: { type: 'schemaless' } } as const;
    trace.differs(differencesOf(after.spec, before.spec, spec).map(({ path }) => ({ path: `.spec${path}` })));
    for (const item of [`x].${secret}`, `x].y[${secret}].z`, `[${secret}`]) {
      const inMap = differencesOf({ [item]: item }, {}, { type: 'schemaless' });
      trace.differs([
        ...differencesOf({ list: [item] }, { list: [] }, spec).map(({ path }) => ({ path: `.spec${path}` })),
        ...inMap.map(({ path }) => ({ path: `.spec.map${path}` })),
        ...inMap.map(({ path }) => ({ path: `.metadata.labels${path}` })),
      ]);
      trace.requested({ verb: 'apply', kind: Widget, key: { name: 'a' } }, nowMs).responded(undefined);
    }
    for (const request of [
      { verb: 'apply' },
      { verb: 'patch', patch: after },
      { verb: 'patch', patch: [{ op: 'add', path: '/spec/text', value: secret }] },
    ] as const) {
      const key = { name: 'a' };
      const error = refusal(secret, [{ reason: secret, message: secret, field: `spec.${secret} ${secret}` }]);
      trace.requested({ kind: Widget, key, ...request }, nowMs).responded(error);
    }
    const times = { endedAtMs: nowMs, nextAtMs: undefined };
    trace.ended('error', undefined, Object.assign(new Error(secret), { detail: secret, query: secret }), times);
    const query = { kind: 'Widget', namespace: 'default', name: 'a' };
    const activity = recorder.explainActivity({ namespace: 'default', withinSeconds: 60 });
    const everything = [
      told('a'),
      JSON.stringify(recorder.explain(query)),
      JSON.stringify(activity),
      formatExplanation({ activity, notes: [] }),
    ];
    expect(everything.join()).toContain('metadata.labels.app');
    expect(everything.join()).toContain('spec.list[]');
    expect(everything.join()).not.toContain(secret);
  });

  const withCode = (error: Error, code: unknown) => Object.assign(error, { code });
  test.each<[string, unknown, string]>([
    ['a defect', new TypeError(`cannot read ${secret}`), 'TypeError'],
    ['an SQL error', withCode(new Error(`column "${secret}" of '${secret}'`), '42703'), 'Error 42703'],
    ['a code that is a sentence', withCode(new Error('x'), `the password ${secret}`), 'Error'],
    ['a text', secret, 'a value that is not an Error'],
    [
      'an invalid value',
      new ApiError('POST /x', 422, {
        reason: 'Invalid',
        message: `Part "p" is invalid: spec.size: Invalid value: "${secret}": is too big`,
        details: { causes: [{ field: 'spec.size', message: `Invalid value: "${secret}"` }] },
      }),
      '422 Invalid; fields spec.size',
    ],
    [
      'a webhook',
      new ApiError('POST /x', 400, {
        reason: secret.repeat(10),
        message: `admission webhook "a.b.c" denied the request: ${secret}`,
      }),
      '400 Unknown; webhook a.b.c denies it',
    ],
    [
      'a policy',
      refusal(`parts "x" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'all' denied request: ${secret}`),
      '403 Forbidden; policy small denies it',
    ],
    [
      'the cause of an error',
      new Error(secret, { cause: withCode(new Error(secret), 'ECONNREFUSED') }),
      'Error, caused by Error ECONNREFUSED',
    ],
  ])('of %s', (_, error, summary) => {
    const { reconcile, explained, told } = recording();
    reconcile('a', error);
    expect(explained('a')?.reconciles[0]?.error).toBe(summary);
    expect(told('a')).not.toContain(secret);
    expect(JSON.stringify(explained('a'))).not.toContain(secret);
  });
});
