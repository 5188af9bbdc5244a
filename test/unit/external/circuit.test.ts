import { beforeEach, describe, expect, test } from '@jest/globals';
import { Circuit, type CircuitOptions, ExternalSystemDownError } from '../../../src/external/circuit.ts';
import { RecordingLog } from '../../../testkit/recording-log.ts';

class DownError extends Error {}
class RefusalError extends Error {}

let elapsedMs: number;
let log: RecordingLog;
let changes: boolean[];

beforeEach(() => {
  elapsedMs = 0;
  log = new RecordingLog();
  changes = [];
});

const makeCircuit = (options: Partial<CircuitOptions> = {}): Circuit =>
  new Circuit({
    system: 'the store',
    reasonOf: (error) => (error instanceof DownError ? 'StoreDown' : undefined),
    isResponse: (error) => error instanceof RefusalError,
    log,
    probeAfterMs: 100,
    maxProbeAfterMs: 400,
    onChange: (up) => changes.push(up),
    clock: { elapsedMs: () => elapsedMs, now: () => new Date('2026-01-02T03:04:05Z') },
    random: () => 0,
    ...options,
  });

const down = async (): Promise<never> => {
  throw new DownError('connect ECONNREFUSED');
};
const up = async (): Promise<string> => 'answer';
const error = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'no error',
    (thrown: unknown) => thrown,
  );

describe('a circuit', () => {
  test('returns the result of the work, and throws its error if that means no outage', async () => {
    const circuit = makeCircuit();
    expect(await circuit.call(up)).toBe('answer');
    const refusal = new Error('there is no such pet');
    expect(await error(circuit.call(() => Promise.reject(refusal)))).toBe(refusal);
    expect(await circuit.call(up)).toBe('answer');
    expect(changes).toEqual([]);
  });

  test('says when a request last failed, also to callers that it refuses at once', async () => {
    const clock = { elapsedMs: () => elapsedMs, now: () => new Date(elapsedMs) };
    const circuit = makeCircuit({ clock });
    const [since, probed] = [new Date(0), new Date(150)];
    expect(await error(circuit.call(down))).toMatchObject({ since, failedAt: since });
    elapsedMs = 50;
    expect(await error(circuit.call(down))).toMatchObject({ since, failedAt: since });
    elapsedMs = 150;
    expect(await error(circuit.call(down))).toMatchObject({ since, failedAt: probed });
    elapsedMs = 200;
    expect(await error(circuit.call(down))).toMatchObject({ since, failedAt: probed });
  });

  test('opens at an outage: the next calls fail at once with the same message', async () => {
    const circuit = makeCircuit();
    const first = await error(circuit.call(down));
    expect(first).toBeInstanceOf(ExternalSystemDownError);
    expect(first).toMatchObject({
      reason: 'StoreDown',
      message: 'the store: connect ECONNREFUSED',
    });
    expect(first).toMatchObject({ since: new Date('2026-01-02T03:04:05Z'), cause: expect.any(DownError) });
    let works = 0;
    for (let call = 0; call < 10_000; call++) {
      const refused = await error(circuit.call(async () => (works += 1)));
      expect((refused as Error).message).toBe('the store: connect ECONNREFUSED');
    }
    expect(works).toBe(0);
    expect(circuit.isOpen).toBe(true);
    expect(changes).toEqual([false]);
    expect(log.messages('warn')).toEqual(['the external system cannot be used: calls fail until a probe succeeds']);
  });

  test('sends one probe when it is due, and no other call meanwhile', async () => {
    const circuit = makeCircuit();
    await error(circuit.call(down));
    elapsedMs = 99;
    expect(await error(circuit.call(up))).toBeInstanceOf(ExternalSystemDownError);
    elapsedMs = 100;
    const answer = Promise.withResolvers<string>();
    const probe = circuit.call(() => answer.promise);
    expect(await error(circuit.call(up))).toBeInstanceOf(ExternalSystemDownError);
    answer.resolve('back');
    expect(await probe).toBe('back');
    expect(circuit.isOpen).toBe(false);
    expect(await circuit.call(up)).toBe('answer');
    expect(changes).toEqual([false, true]);
    expect(log.messages('info')).toEqual(['the external system can be used again']);
  });

  test('closes when the system refuses a request, because that is an answer too', async () => {
    const circuit = makeCircuit();
    await error(circuit.call(down));
    elapsedMs = 100;
    const refusal = new RefusalError('no');
    expect(await error(circuit.call(() => Promise.reject(refusal)))).toBe(refusal);
    expect(circuit.isOpen).toBe(false);
    expect(changes).toEqual([false, true]);
  });

  test('is not closed by an error that is not an answer of the system; the next call is a probe', async () => {
    const circuit = makeCircuit();
    await error(circuit.call(down));
    elapsedMs = 100;
    const conflict = new Error('409 of the API server');
    expect(await error(circuit.call(() => Promise.reject(conflict)))).toBe(conflict);
    expect(circuit.isOpen).toBe(true);
    expect(changes).toEqual([false]);
    expect(await circuit.call(up)).toBe('answer');
    expect(changes).toEqual([false, true]);
  });

  test('doubles the pause after each failed probe, up to a limit', async () => {
    const circuit = makeCircuit();
    await error(circuit.call(down));
    const pauses: number[] = [];
    for (let probe = 0; probe < 5; probe++) {
      pauses.push(circuit.retryAfterMs);
      elapsedMs += circuit.retryAfterMs;
      await error(circuit.call(down));
    }
    expect(pauses).toEqual([100, 200, 400, 400, 400]);
  });

  test('spreads the retries over one pause', async () => {
    const circuit = makeCircuit({ random: () => 0.5 });
    await error(circuit.call(down));
    elapsedMs = 40;
    expect(circuit.retryAfterMs).toBe(60 + 50);
    elapsedMs = 1000;
    expect(circuit.retryAfterMs).toBe(50);
    await circuit.call(up);
    expect(circuit.retryAfterMs).toBe(50);
  });

  test('keeps the first message of an outage until the reason changes', async () => {
    const circuit = makeCircuit({
      reasonOf: (thrown) =>
        thrown instanceof Error && thrown.message.includes('password') ? 'AccessDenied' : 'StoreDown',
    });
    await error(circuit.call(() => Promise.reject(new Error('reset'))));
    elapsedMs = 100;
    const second = await error(circuit.call(() => Promise.reject(new Error('refused'))));
    expect(second).toMatchObject({ reason: 'StoreDown', message: 'the store: reset' });
    elapsedMs = 1000;
    const third = await error(circuit.call(() => Promise.reject(new Error('wrong password'))));
    expect(third).toMatchObject({ reason: 'AccessDenied', message: 'the store: wrong password' });
    expect(changes).toEqual([false]);
  });

  test('is not opened by a call that began before the last answer', async () => {
    const circuit = makeCircuit();
    const late = Promise.withResolvers<string>();
    const stale = error(circuit.call(() => late.promise));
    elapsedMs = 50;
    await circuit.call(up);
    late.reject(new DownError('timed out'));
    expect(await stale).toBeInstanceOf(ExternalSystemDownError);
    expect(await circuit.call(up)).toBe('answer');
    expect(changes).toEqual([]);
  });

  test('ignores calls that are aborted', async () => {
    const circuit = makeCircuit();
    const stop = new AbortController();
    const given = error(
      circuit.call(async (signal) => {
        stop.abort(new Error('enough'));
        signal.throwIfAborted();
        throw new DownError('after that');
      }, stop.signal),
    );
    expect(await given).toMatchObject({ message: 'enough' });
    expect(await circuit.call(up)).toBe('answer');
    expect(await error(circuit.call(up, stop.signal))).toMatchObject({ message: 'enough' });
  });

  test('lets the next call probe if a probe is aborted', async () => {
    const circuit = makeCircuit();
    await error(circuit.call(down));
    elapsedMs = 100;
    const stop = new AbortController();
    await error(
      circuit.call(async () => {
        stop.abort(new Error('enough'));
        throw new DownError('reset');
      }, stop.signal),
    );
    expect(await circuit.call(up)).toBe('answer');
  });

  test('does not open because of the open circuit of another system', async () => {
    const outer = makeCircuit();
    const inner = makeCircuit({ system: 'the shelf', probeAfterMs: 200 });
    await error(inner.call(down));
    await error(outer.call(down));
    elapsedMs = 100;
    // The inner one refuses by itself: no external system was asked.
    expect(await error(outer.call(() => inner.call(up)))).toMatchObject({
      message: expect.stringContaining('the shelf: '),
    });
    expect(changes).toEqual([false, false]);
    expect(await outer.call(up)).toBe('answer');
  });

  test.each([
    [0, 100],
    [-1, 100],
    [100, 99],
    [Number.NaN, 100],
  ])('refuses pauses from %d to %d', (probeAfterMs, maxProbeAfterMs) => {
    expect(() => makeCircuit({ probeAfterMs, maxProbeAfterMs })).toThrow(RangeError);
  });
});
