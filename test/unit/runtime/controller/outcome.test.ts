import {
  builtInKind,
  type Condition,
  defineReasons,
  done,
  type ObjectOf,
  type Outcome,
  OutcomeReporter,
  type ReasonOf,
  type Result,
  requeueAfter,
  retry,
  TerminalError,
} from '@echoperator/runtime';
import { ApiError, GateClosedError } from '@echoperator/runtime/client';
import { desiredStatus } from '@echoperator/runtime/controller';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { makeUnreadable, UnreadableObjectError } from '../../../../packages/runtime/src/kind/unreadable-object.ts';
import type { EventNotice } from '../../../../packages/runtime/src/observability/event-recorder.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

const Reporting = builtInKind<{
  status?: { phase?: string; observedGeneration?: number; conditions?: Condition[] };
}>(Widget);
type Reporting = ObjectOf<typeof Reporting>;

const reasons = defineReasons({
  Painted: { ready: 'True', event: 'Normal', meaning: 'The widget is painted.' },
  Drying: { ready: 'False', event: 'Normal', meaning: 'The paint is drying.' },
  Shining: { ready: 'True', event: 'Normal', meaning: 'The paint begins to shine.' },
  Refused: { ready: 'False', event: 'Warning', blocksCreation: true, meaning: 'The API server refuses the paint.' },
  InvalidColor: { ready: 'False', event: 'Warning', recordsMessageChanges: true, meaning: 'There is no such color.' },
});
type WidgetOutcome = Outcome<ReasonOf<typeof reasons>, Reporting>;

const now = new Date('2026-02-02T00:00:00.5Z');
const later = '2026-02-02T00:00:00Z';
const condition = (reason: string, rest: Partial<Condition> = {}): Condition => ({
  type: 'Ready',
  status: 'False',
  reason,
  message: 'wait',
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00Z',
  ...rest,
});
const widget = (status?: Reporting['status']): Reporting => ({
  ...stored('a', '7', { generation: 2 }),
  ...(status && { status }),
});

let server: ScriptedServer;
let transport: Transport;
let log: RecordingLog;
let notices: string[];

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  log = new RecordingLog();
  notices = [];
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

/** How reconciles have failed in a row before. */
interface Before {
  readonly count?: number;
  readonly forMs?: number;
  readonly timeout?: unknown;
}

const reporter = (refused?: (object: Reporting, refusal: ApiError) => WidgetOutcome) =>
  new OutcomeReporter({
    kind: Reporting,
    reasons,
    events: {
      record: (_kind: unknown, _object: unknown, { type, reason, note }: EventNotice) => {
        notices.push(`${type} ${reason}: ${note}`);
      },
    },
    now: () => now,
    ...(refused && { refused }),
  });
const context = () => ({ client: new HttpClient(transport, 'tester'), log });
const since = new Date(now.getTime() - 5000);
const failing = ({ count = 2, forMs = 5000, timeout }: Before = {}) => ({
  ...context(),
  priorFailures: { count, since: new Date(now.getTime() - forMs), timeout },
});
const report = (object: Reporting, outcome: WidgetOutcome): Promise<Result> =>
  reporter().report(object, outcome, context());

/** Accepts the status that is written next, and returns it. */
async function written(): Promise<unknown> {
  const request = await server.next({ method: 'PATCH' });
  const { status } = request.body as { status: unknown };
  request.json(200, { ...stored('a', '8'), status });
  return status;
}

const refusal = (message: string) => new ApiError('POST /paints', 403, { reason: 'Forbidden', message });

describe('a reason', () => {
  test.each(['not camel', 'lowerCase', 'With-Dash', ''])('named %j is invalid', (name) => {
    expect(() => defineReasons({ [name]: reasons.Painted })).toThrow(RangeError);
  });
});

describe('the status of an outcome', () => {
  const foreign = condition('Other', { type: 'Foreign' });
  const drying = { reason: 'Drying', message: 'wait' } as const;

  test('has Ready with the status of the reason and the observed generation', () => {
    expect(
      desiredStatus(reasons, widget(), { reason: 'Painted', message: 'red', status: { phase: 'Done' } }, now),
    ).toEqual({
      phase: 'Done',
      observedGeneration: 2,
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Painted',
          message: 'red',
          observedGeneration: 2,
          lastTransitionTime: later,
        },
      ],
    });
  });

  test('keeps conditions that it does not name, with their observed generation', () => {
    const conditions = [foreign, condition('Drying')];
    expect(desiredStatus(reasons, widget({ conditions }), drying, now).conditions).toEqual([
      foreign,
      condition('Drying', { observedGeneration: 2 }),
    ]);
  });

  test('has the other conditions of the outcome, with the observed generation', () => {
    const outcome = {
      ...drying,
      conditions: [{ type: 'Dry', status: 'Unknown', reason: 'Damp', message: '' }],
    } as const;
    expect(desiredStatus(reasons, widget({ conditions: [foreign] }), outcome, now).conditions).toMatchObject([
      { type: 'Foreign', observedGeneration: 1 },
      { type: 'Dry', status: 'Unknown', observedGeneration: 2, lastTransitionTime: later },
      { type: 'Ready', observedGeneration: 2 },
    ]);
  });
});

describe('a report', () => {
  test('writes the status, and an Event and a log line for a new reason', async () => {
    const result = report(widget(), { reason: 'Painted', message: 'it is red' });
    expect(await written()).toMatchObject({ observedGeneration: 2, conditions: [{ reason: 'Painted' }] });
    expect(await result).toBe(done);
    expect(notices).toEqual(['Normal Painted: it is red']);
    expect(log.lines).toMatchObject([{ level: 'info', message: 'it is red', details: { reason: 'Painted' } }]);
  });

  test('sends nothing if the status is unchanged', async () => {
    const status = { observedGeneration: 2, conditions: [condition('Drying', { observedGeneration: 2 })] };
    expect(await report(widget(status), { reason: 'Drying', message: 'wait' })).toBe(done);
    expect(server.unclaimed).toBe(0);
    expect(notices).toEqual([]);
  });

  test('records no Event for a new message under the same reason', async () => {
    const result = report(widget({ conditions: [condition('Drying')] }), { reason: 'Drying', message: 'still' });
    expect(await written()).toMatchObject({ conditions: [{ message: 'still' }] });
    await result;
    expect(notices).toEqual([]);
    expect(log.lines).toEqual([]);
  });

  test('records an Event for a new message if the reason has recordsMessageChanges', async () => {
    const status = { conditions: [condition('InvalidColor')] };
    const result = report(widget(status), { reason: 'InvalidColor', message: 'no color: blau' });
    await written();
    await result;
    expect(notices).toEqual(['Warning InvalidColor: no color: blau']);
  });

  test('records no Event if only the generation changed, even with recordsMessageChanges', async () => {
    const status = { conditions: [condition('InvalidColor')] };
    const result = report(widget(status), { reason: 'InvalidColor', message: 'wait' });
    await written();
    await result;
    expect(notices).toEqual([]);
  });

  test('whose status write fails logs its error before that of the write is thrown', async () => {
    const error = new Error('no paint');
    const failed = report(widget(), { reason: 'Drying', message: 'wait', error }).catch((thrown: unknown) => thrown);
    (await server.next({ method: 'PATCH' })).refuse(409, 'Conflict');
    expect(await failed).toMatchObject({ code: 409 });
    expect(log.lines).toMatchObject([{ level: 'warn', details: { err: error } }]);
  });

  describe('whose status write has no answer', () => {
    const outcome: WidgetOutcome = { reason: 'Painted', message: 'red' };
    /** Reports the outcome, loses the answer, and returns the status that was requested. */
    async function lost(reporting: ReturnType<typeof reporter>, reported = outcome): Promise<Reporting['status']> {
      const failed = reporting.report(widget(), reported, context()).catch(() => 'failed');
      const request = await server.next({ method: 'PATCH' });
      request.cut();
      expect(await failed).toBe('failed');
      expect(notices).toEqual([]);
      return (request.body as { status: Reporting['status'] }).status;
    }

    test('records the Event once, when the written status is read', async () => {
      const reporting = reporter();
      const status = await lost(reporting);
      // The store is stale at the first retry.
      const conflict = reporting.report(widget(), outcome, context()).catch(() => 'conflict');
      (await server.next({ method: 'PATCH' })).refuse(409, 'Conflict');
      expect(await conflict).toBe('conflict');
      for (let time = 0; time < 2; time += 1) {
        expect(await reporting.report(widget(status), outcome, context())).toBe(done);
      }
      expect(notices).toEqual(['Normal Painted: red']);
    });

    test('records the Event if the next reconcile has nothing to report', async () => {
      const reporting = reporter();
      const status = await lost(reporting);
      for (let time = 0; time < 2; time += 1) {
        expect(await reporting.reconcile(widget(status), context(), async () => done)).toBe(done);
      }
      expect(notices).toEqual(['Normal Painted: red']);
    });

    test('records the Event of the outcome too', async () => {
      const reporting = reporter();
      const event = { type: 'Normal', reason: 'Repainted', note: 'it was blue' } as const;
      const status = await lost(reporting, { ...outcome, event });
      await reporting.reconcile(widget(status), context(), async () => done);
      expect(notices).toEqual(['Normal Repainted: it was blue', 'Normal Painted: red']);
    });

    test('records the Event once if the status was not written', async () => {
      const reporting = reporter();
      await lost(reporting);
      const again = reporting.report(widget(), outcome, context());
      const status = await written();
      await again;
      expect(await reporting.report(widget(status as Reporting['status']), outcome, context())).toBe(done);
      expect(notices).toEqual(['Normal Painted: red']);
    });
  });

  describe('with an Event', () => {
    const event = { type: 'Normal', reason: 'Repainted', note: 'it was blue' } as const;

    test('records it after the status write', async () => {
      const result = report(widget(), { reason: 'Painted', message: 'red', event });
      const request = await server.next({ method: 'PATCH' });
      expect(notices).toEqual([]);
      request.json(200, stored('a', '8'));
      await result;
      expect(notices).toEqual(['Normal Repainted: it was blue', 'Normal Painted: red']);
    });

    test('records it if the status is unchanged', async () => {
      const status = { observedGeneration: 2, conditions: [condition('Drying', { observedGeneration: 2 })] };
      await report(widget(status), { reason: 'Drying', message: 'wait', event });
      expect(notices).toEqual(['Normal Repainted: it was blue']);
    });

    test('leaves it to the retry if the status write fails', async () => {
      const failed = report(widget(), { reason: 'Painted', message: 'red', event }).catch(() => 'failed');
      (await server.next({ method: 'PATCH' })).refuse(409, 'Conflict');
      expect(await failed).toBe('failed');
      expect(notices).toEqual([]);
    });
  });

  test('succeeds without an Event if the object no longer exists', async () => {
    const result = report(widget(), { reason: 'Painted', message: 'red' });
    (await server.next({ method: 'PATCH' })).refuse(404, 'NotFound');
    (await server.next({ method: 'GET' })).refuse(404, 'NotFound');
    expect(await result).toBe(done);
    expect(notices).toEqual([]);
  });

  test('warns once about members that the API server dropped, because the CustomResourceDefinition lacks them', async () => {
    const outdated = reporter();
    const painted = { reason: 'Painted', message: 'red', status: { phase: 'Painted' } } as const;
    const reportTo = async (stores: (status: object) => object): Promise<void> => {
      const result = outdated.report(widget(), painted, context());
      const request = await server.next({ method: 'PATCH' });
      request.json(200, { ...stored('a', '8'), status: stores((request.body as { status: object }).status) });
      await result;
    };
    await reportTo((status) => status);
    expect(log.messages('warn')).toEqual([]);
    await reportTo((status) => ({ ...status, phase: undefined }));
    await reportTo((status) => ({ ...status, phase: undefined }));
    expect(log.lines.filter(({ level }) => level === 'warn')).toMatchObject([
      {
        message: expect.stringContaining('CustomResourceDefinition'),
        details: { kind: 'Widget', members: ['phase'] },
      },
    ]);
  });

  test('throws an error that says what to do if the kind has no status subresource', async () => {
    const result = report(widget(), { reason: 'Painted', message: 'red' });
    (await server.next({ method: 'PATCH' })).refuse(404, 'NotFound');
    (await server.next({ method: 'GET' })).json(200, widget());
    await expect(result).rejects.toThrow('CustomResourceDefinition');
  });
});

describe('a created child', () => {
  const child = stored('a-child', '1');
  const notesFor = (status?: Reporting['status']) => {
    reporter().recordChild(widget(status), Widget, { type: 'created', object: child }, context());
    return notices;
  };

  test('is an Event if Ready was not observed for this generation', () => {
    expect(notesFor()).toEqual(['Normal WidgetCreated: created Widget a-child']);
    notices = [];
    expect(notesFor({ conditions: [condition('Painted')] })).toEqual(['Normal WidgetCreated: created Widget a-child']);
  });

  test.each(['Painted', 'Drying'])('is created again if Ready was %s for this generation', (reason) => {
    expect(notesFor({ conditions: [condition(reason, { observedGeneration: 2 })] })).toEqual([
      'Normal WidgetRecreated: created Widget a-child, which was missing',
    ]);
  });

  test.each(['Refused', 'ControllerDisabled'])('may be the first while Ready is %s', (reason) => {
    expect(notesFor({ conditions: [condition(reason, { observedGeneration: 2 })] })).toEqual([
      'Normal WidgetCreated: created Widget a-child',
    ]);
  });
});

describe('the result of a report', () => {
  const said = widget({ observedGeneration: 2, conditions: [condition('Drying', { observedGeneration: 2 })] });
  const drying = { reason: 'Drying', message: 'wait' } as const;

  test('is requeueAfter with the delay of the outcome', async () => {
    expect(await report(said, { ...drying, requeueAfterMs: 250 })).toEqual(requeueAfter(250));
  });

  test('is a retry after a refusal by the API server, even if the outcome has a delay', async () => {
    const error = refusal('exceeded quota');
    expect(await report(said, { ...drying, error, requeueAfterMs: 250 })).toEqual(retry(error));
  });

  test('is a throw of any other error, after the status was written', async () => {
    const error = new Error('down');
    const result = report(widget(), { ...drying, error }).catch((thrown: unknown) => thrown);
    await written();
    expect(await result).toBe(error);
  });
});

describe('a reconcile', () => {
  const refused = (_: Reporting, { status }: ApiError): WidgetOutcome => ({
    reason: 'Refused',
    message: status.message ?? '',
  });
  const reconcile = (work: () => Promise<WidgetOutcome | Result | undefined>) =>
    reporter(refused).reconcile(widget(), context(), work);

  test('whose request the API server refuses is reported and retried', async () => {
    const error = refusal('exceeded quota');
    const result = reconcile(() => Promise.reject(error));
    expect(await written()).toMatchObject({ conditions: [{ reason: 'Refused', message: 'exceeded quota' }] });
    expect(await result).toEqual(retry(error));
    expect(notices).toEqual(['Warning Refused: exceeded quota']);
  });

  test('whose request the API server refuses throws if there is no outcome for refusals', async () => {
    const error = refusal('no');
    await expect(reporter().reconcile(widget(), context(), () => Promise.reject(error))).rejects.toBe(error);
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['fails for another reason', new Error('down')],
    ['has a Conflict', new ApiError('POST /paints', 409, { reason: 'Conflict' })],
    [
      'writes to a terminating namespace',
      new ApiError('POST /paints', 403, {
        reason: 'Forbidden',
        details: { causes: [{ reason: 'NamespaceTerminating' }] },
      }),
    ],
  ])('that %s throws and reports nothing', async (_, error) => {
    await expect(reconcile(() => Promise.reject(error))).rejects.toBe(error);
    expect(server.unclaimed).toBe(0);
  });

  test('whose work has reported returns its result, and writes nothing', async () => {
    expect(await reconcile(async () => requeueAfter(50))).toEqual(requeueAfter(50));
    expect(server.unclaimed).toBe(0);
  });

  test('whose status write the API server refuses throws an error, and writes no other status', async () => {
    const reporting = reporter(refused);
    const failed = reporting
      .reconcile(widget(), context(), () =>
        reporting.report(widget(), { reason: 'Painted', message: 'red' }, context()),
      )
      .catch((error: unknown) => error);
    (await server.next({ method: 'PATCH' })).refuse(403, 'Forbidden');
    const error = await failed;
    expect(error).toMatchObject({ message: expect.stringContaining('Widget default/a'), cause: { code: 403 } });
    expect(error).not.toBeInstanceOf(ApiError);
    expect(server.unclaimed).toBe(0);
    expect(notices).toEqual([]);
  });

  test('without an outcome writes nothing', async () => {
    expect(await reconcile(async () => undefined)).toBe(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('a reconcile that fails again and again', () => {
  const unavailable = new ApiError('POST /paints', 503, { reason: 'ServiceUnavailable', message: 'secret words' });
  const text = `reconciles have failed since ${since.toISOString()}: 503 ServiceUnavailable`;
  const reconcile = (object: Reporting, how: ReturnType<typeof failing>, error: unknown = unavailable) =>
    reporter()
      .reconcile(object, how, () => Promise.reject(error))
      .catch((thrown: unknown) => thrown);
  /** Answers the read of the object, and returns the condition that is written then. */
  async function told(object: Reporting): Promise<Partial<Condition> | undefined> {
    (await server.next({ method: 'GET' })).json(200, object);
    const { conditions } = (await written()) as { conditions: readonly Condition[] };
    return conditions.find(({ type }) => type === 'Ready');
  }
  const withReady = (reason: string, message: string, rest: Partial<Condition> = {}): Reporting => ({
    ...widget({ observedGeneration: 2, conditions: [condition(reason, { message, observedGeneration: 2, ...rest })] }),
  });

  test.each<[string, Before]>([
    ['fewer than three times', { count: 1 }],
    ['for less than five seconds', { forMs: 4999 }],
  ])('%s reports nothing', async (_, before) => {
    expect(await reconcile(widget(), failing(before))).toBe(unavailable);
    expect(server.unclaimed).toBe(0);
  });

  test('reports that and why, with an Event, and throws the error', async () => {
    const failed = reconcile(widget(), failing());
    expect(await told(widget())).toMatchObject({
      status: 'Unknown',
      reason: 'ReconcileFailed',
      message: text,
      observedGeneration: 2,
    });
    expect(await failed).toBe(unavailable);
    expect(notices).toEqual([`Warning ReconcileFailed: ${text}`]);
  });

  test('sends nothing if the status tells it', async () => {
    const object = withReady('ReconcileFailed', text, { status: 'Unknown' });
    expect(await reconcile(object, failing({ count: 9 }))).toBe(unavailable);
    expect(server.unclaimed).toBe(0);
    expect(notices).toEqual([]);
  });

  test('reports another cause without an Event', async () => {
    const object = withReady('ReconcileFailed', text, { status: 'Unknown' });
    const failed = reconcile(object, failing(), new TypeError('x is undefined'));
    const message = `reconciles have failed since ${since.toISOString()}: TypeError`;
    expect(await told(object)).toMatchObject({ reason: 'ReconcileFailed', message });
    await failed;
    expect(notices).toEqual([]);
  });

  test('keeps a reason that asks a person to act, and adds the cause once', async () => {
    const object = withReady('Refused', 'exceeded quota');
    const failed = reconcile(object, failing());
    const ready = await told(object);
    expect(ready).toMatchObject({ status: 'False', reason: 'Refused', message: `exceeded quota; besides, ${text}` });
    await failed;
    const again = reconcile(withReady('Refused', ready?.message ?? ''), failing(), new TypeError('no'));
    expect((await told(withReady('Refused', ready?.message ?? '')))?.message).toBe(
      `exceeded quota; besides, reconciles have failed since ${since.toISOString()}: TypeError`,
    );
    await again;
  });

  test.each([
    ['of an earlier generation', withReady('Refused', 'exceeded quota', { observedGeneration: 1 })],
    ['that this kind does not have', withReady('ControllerDisabled', 'off')],
    ['of success', withReady('Painted', 'it is red', { status: 'True' })],
  ])('replaces a reason %s', async (_, object) => {
    const failed = reconcile(object, failing());
    expect(await told(object)).toMatchObject({ status: 'Unknown', reason: 'ReconcileFailed', message: text });
    await failed;
  });

  test('reports it although the reconcile has changed the object before, but not for a new spec', async () => {
    const changed = stored('a', '9', { generation: 2 });
    const failed = reconcile(widget(), failing());
    (await server.next({ method: 'GET' })).json(200, changed);
    const request = await server.next({ method: 'PATCH' });
    expect(request.body).toMatchObject({ metadata: { resourceVersion: '9' } });
    request.json(200, changed);
    await failed;
    const edited = reconcile(widget(), failing());
    (await server.next({ method: 'GET' })).json(200, stored('a', '10', { generation: 3 }));
    expect(await edited).toBe(unavailable);
    expect(server.unclaimed).toBe(0);
  });

  test('throws its own error if that cannot be reported', async () => {
    const failed = reconcile(widget(), failing());
    (await server.next({ method: 'GET' })).refuse(503, 'ServiceUnavailable');
    expect(await failed).toBe(unavailable);
    expect(notices).toEqual([]);
  });

  test.each([
    ['this process may no longer write', new GateClosedError('not the leader')],
    [
      'its namespace is being deleted',
      new ApiError('POST /api/v1/namespaces/default/paints', 403, {
        reason: 'Forbidden',
        details: { causes: [{ reason: 'NamespaceTerminating' }] },
      }),
    ],
  ])('reports nothing if %s', async (_, error) => {
    expect(await reconcile(widget(), failing(), error)).toBe(error);
    expect(server.unclaimed).toBe(0);
  });

  test('reports nothing if its status write fails', async () => {
    const failed = reporter()
      .reconcile(widget(), failing(), async () => ({ reason: 'Painted', message: 'red' }))
      .catch((error: unknown) => error);
    (await server.next({ method: 'PATCH' })).refuse(500, 'InternalError');
    expect(await failed).toMatchObject({ code: 500 });
    expect(server.unclaimed).toBe(0);
  });

  test('of two nested reconciles of an object only the inner one reports it', async () => {
    const reporting = reporter();
    const inner = () => reporting.reconcile(widget(), failing(), () => Promise.reject(unavailable));
    const failed = reporting.reconcile(widget(), failing(), inner).catch((error: unknown) => error);
    await told(widget());
    expect(await failed).toBe(unavailable);
    expect(server.unclaimed).toBe(0);
  });

  test('reports its own outcome, and the cause instead of a reason that does not tell it', async () => {
    const outcome = {
      reason: 'Drying',
      message: '3 of 5 are dry',
      status: { phase: 'Wet' },
      error: unavailable,
    } as const;
    const failed = reporter()
      .reconcile(widget(), failing(), async () => outcome)
      .catch((error: unknown) => error);
    expect(await written()).toMatchObject({
      phase: 'Wet',
      conditions: [{ status: 'Unknown', reason: 'ReconcileFailed', message: `${text}; 3 of 5 are dry` }],
    });
    expect(await failed).toBe(unavailable);
    expect(server.unclaimed).toBe(0);
  });

  test('reports its own outcome with a reason that asks a person to act', async () => {
    const failed = reporter()
      .reconcile(widget(), failing(), async () => ({ reason: 'Refused', message: 'no paint', error: unavailable }))
      .catch((error: unknown) => error);
    expect(await written()).toMatchObject({ conditions: [{ reason: 'Refused', message: 'no paint' }] });
    expect(await failed).toBe(unavailable);
    expect(server.unclaimed).toBe(0);
  });

  test('with a terminal error is reported at once: no retry follows', async () => {
    const error = new TerminalError('no such color');
    const failed = reporter()
      .reconcile(widget(), context(), () => Promise.reject(error))
      .catch((thrown: unknown) => thrown);
    expect(await told(widget())).toMatchObject({
      reason: 'ReconcileFailed',
      message: 'the reconcile has failed and is not retried: no such color',
    });
    expect(await failed).toBe(error);
  });

  test.each<[string, object, string]>([
    [
      'a reason that is not declared',
      { reason: 'Paintd' },
      'reports the reason "Paintd", which its `reasons` do not declare',
    ],
    [
      'a second Ready',
      { conditions: [{ type: 'Ready', status: 'True', reason: 'Painted', message: '' }] },
      'reports a condition "Ready", which follows from the reason of the outcome',
    ],
    [
      'a condition that the API conventions forbid',
      { conditions: [{ type: 'Dry!', status: 'True', reason: 'it is dry', message: '' }] },
      'reports a condition "Dry!", of the reason "it is dry": the type is a qualified name, and the reason one CamelCase word',
    ],
  ])('because of %s names it, although the compiler has not seen it', async (_, wrong, problem) => {
    const outcome = { reason: 'Painted', message: '', ...wrong } as never;
    const failed = reporter()
      .reconcile(widget(), context(), async () => outcome)
      .catch((thrown: unknown) => thrown);
    const message = `the controller of Widget ${problem}`;
    expect(await told(widget())).toMatchObject({
      reason: 'ReconcileFailed',
      message: `the reconcile has failed and is not retried: ${message}`,
    });
    expect(await failed).toEqual(new TerminalError(message));
  });

  test('because its spec cannot be read is reported as InvalidSpec, once', async () => {
    const deep = (status?: Reporting['status']): Reporting => {
      const object = { ...widget(status), kind: 'Widget', spec: {} };
      makeUnreadable(object, ['spec'], 'nested too deep');
      return object;
    };
    const error = new UnreadableObjectError(deep(), 'spec', 'nested too deep');
    const failed = reporter()
      .reconcile(deep(), context(), () => Promise.reject(error))
      .catch((thrown: unknown) => thrown);
    const ready = await told(widget());
    const message = 'Widget default/a: .spec is nested too deep: simplify it, or delete the object';
    expect(ready).toMatchObject({ status: 'False', reason: 'InvalidSpec', message });
    expect(await failed).toBe(error);
    expect(notices).toEqual([`Warning InvalidSpec: ${message}`]);

    const reported = deep({ observedGeneration: 2, conditions: [ready as Condition] });
    await expect(reporter().reconcile(reported, context(), () => Promise.reject(error))).rejects.toBe(error);
    expect(server.unclaimed).toBe(0);
  });

  test('because a child cannot be read names the child', async () => {
    const child = { ...stored('child', '9'), kind: 'Part' };
    const error = new UnreadableObjectError(child, 'spec', 'nested too deep');
    const failed = reporter()
      .reconcile(widget(), context(), () => Promise.reject(error))
      .catch((thrown: unknown) => thrown);
    expect(await told(widget())).toMatchObject({
      reason: 'ReconcileFailed',
      message: `the reconcile has failed and is not retried: ${error.message}`,
    });
    expect(await failed).toBe(error);
  });

  test('because of its time limit is reported by the next one: the client of the last one was closed', async () => {
    const timeout = Object.assign(new Error('the reconcile took longer than 5 ms'), { name: 'TimeoutError' });
    const late = { ...failing(), signal: AbortSignal.abort(timeout) };
    expect(await reconcile(widget(), late, timeout)).toBe(timeout);
    expect(server.unclaimed).toBe(0);
    const next = reporter().reconcile(widget(), failing({ count: 3, timeout }), async () => done);
    const message = `reconciles have failed since ${since.toISOString()}: TimeoutError`;
    expect(await told(widget())).toMatchObject({ reason: 'ReconcileFailed', message });
    expect(await next).toBe(done);
  });
});
