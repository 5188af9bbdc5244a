import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ExplainResponse, type ExplainServer, serveExplanations } from '@echoperator/runtime/process';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ExplainError, explainCommand } from '../../src/commands/explain.ts';
import { eventually } from '../../testkit/eventually.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';

const explanation = {
  kind: 'Echo',
  key: 'team/hello',
  at: '2026-01-02T03:04:05.678Z',
  now: 'waits for a change',
  total: 9,
  reconciles: [{ at: '2026-01-02T03:04:00.000Z', why: 'resync', queuedMs: 1, steps: [], ms: 0.2, outcome: 'success' }],
} as const;

let folder: string;
let server: ExplainServer;
let asked: unknown;
let answer: ExplainResponse;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'explain-'));
  answer = { explanation, notes: [] };
  const answerQuery = (query: unknown) => {
    asked = query;
    return answer;
  };
  server = await serveExplanations(folder, answerQuery, new RecordingLog());
});
afterEach(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

async function explained(args: readonly string[]): Promise<string> {
  return (await explainCommand(args, folder).next()).value ?? '';
}

describe('explain', () => {
  test.each([
    [['echo/hello'], 'default'],
    [['echo/hello', '-n', 'team'], 'team'],
    [['--namespace', 'team', 'echo/hello'], 'team'],
  ])('%j asks for the object', async (args, namespace) => {
    await explained(args);
    expect(asked).toEqual({ kind: 'echo', name: 'hello', namespace });
  });

  test('asks what was done in a namespace', async () => {
    await explained(['--since', '300', '-n', 'team']);
    expect(asked).toEqual({ namespace: 'team', withinSeconds: 300 });
  });

  test('without a namespace asks what was done in all', async () => {
    await explained(['--since', '300']);
    expect(asked).toEqual({ withinSeconds: 300 });
  });

  test('prints a story', async () => {
    answer = {
      ...answer,
      notes: ['this replica does not lead: ask the leader'],
      leader: { identity: 'pod-1_x', isThisReplica: false, since: '2026-01-02T03:00:00.000Z' },
    };
    expect(await explained(['echo/hello'])).toBe(
      [
        'this replica does not lead: ask the leader',
        'Echo team/hello',
        '(8 of 9 reconciles are no longer recorded)',
        '03:04:00.000  resync (queued for 1 ms)',
        '              done after 0 ms; sent nothing',
        '03:04:05.678  now: waits for a change',
        'leader: pod-1_x, observed at 2026-01-02T03:00:00.000Z',
        '',
      ].join('\n'),
    );
  });

  test('prints the date of what was not today', async () => {
    const [reconcile] = explanation.reconciles;
    const earlier = {
      ...reconcile,
      at: '2026-01-01T23:59:59.999Z',
      repeated: { times: 2, firstAt: '2025-12-31T08:00:00.000Z' },
      nextAt: '2026-01-03T00:00:00.000Z',
    };
    const ignored = { at: '2026-01-01T12:00:00.000Z', change: 'Echo modified' };
    answer = { explanation: { ...explanation, reconciles: [earlier, reconcile], ignored }, notes: [] };
    const told = await explained(['echo/hello']);
    expect(told).toContain(
      '\n2026-01-01 23:59:59.999  resync (queued for 1 ms); also 2 times since 2025-12-31 08:00:00.000\n',
    );
    expect(told).toContain('again at 2026-01-03 00:00:00.000\n03:04:00.000  resync');
    expect(told).toContain('\n2026-01-01 12:00:00.000  ignored: Echo modified\n03:04:05.678  now: ');
    const activity = {
      withinSeconds: 1e6,
      at: '2026-01-02T00:00:01.000Z',
      reconciles: [{ ...earlier, kind: 'Echo', key: 'team/hello' }],
      unfinished: [],
    };
    answer = { activity, notes: [] };
    expect(await explained(['--since', '1000000'])).toContain('\n2026-01-01 23:59:59.999  Echo team/hello: resync');
  });

  test('prints escape sequences only for a terminal', async () => {
    expect(await explained(['echo/hello'])).not.toContain('\u001b');
    const told = await explainCommand(['echo/hello'], folder, { color: true }).next();
    expect(told.value).toContain('\u001b[1mEcho team/hello\u001b');
  });

  test('prints JSON', async () => {
    expect(JSON.parse(await explained(['echo/hello', '--json']))).toEqual(answer);
  });

  test('follows: prints again when there is something new', async () => {
    const texts = explainCommand(['echo/hello', '--follow'], folder);
    expect((await texts.next()).value).toContain('resync');
    const next = texts.next();
    answer = {
      ...answer,
      explanation: { ...explanation, reconciles: [{ ...explanation.reconciles[0], why: 'retry 1' }] },
    };
    expect((await next).value).toContain('retry 1');
    await texts.return();
  });

  test('follows: prints again when the key waits for something else, but not because it waits longer', async () => {
    const waitsFor = (now: string) => ({
      explanation: { ...explanation, now, at: new Date().toISOString() },
      notes: [],
    });
    answer = waitsFor('queued for 999 ms: resync');
    const texts = explainCommand(['echo/hello', '--follow'], folder);
    expect((await texts.next()).value).toContain('queued for 999 ms');
    const next = texts.next();
    asked = undefined;
    answer = waitsFor('queued for 1.2 s: resync');
    await eventually('it asks again', async () => asked !== undefined);
    answer = waitsFor('queued for 3 ms: a source of keys');
    expect((await next).value).toContain('queued for 3 ms');
    await texts.return();
  });

  test('follows what is not ended: prints again when another object waits, but not because time passes', async () => {
    const waiting = (key: string, now: string) => {
      const unfinished = [{ kind: 'Echo', key, now }];
      return { activity: { withinSeconds: 5, at: new Date().toISOString(), reconciles: [], unfinished }, notes: [] };
    };
    answer = waiting('a', 'a reconcile runs for 1.0 s');
    const texts = explainCommand(['--since', '5', '--follow'], folder);
    expect((await texts.next()).value).toContain('Echo a: a reconcile runs for 1.0 s');
    const next = texts.next();
    asked = undefined;
    answer = waiting('a', 'a reconcile runs for 2 min');
    await eventually('it asks again', async () => asked !== undefined);
    answer = waiting('b', 'a reconcile runs for 2 min');
    expect((await next).value).toContain('Echo b: a reconcile runs for 2 min');
    await texts.return();
  });

  test('follows: prints again when another replica leads', async () => {
    const ledBy = (identity: string) => ({
      ...answer,
      leader: { identity, isThisReplica: false, since: '2026-01-02T03:00:00.000Z' },
    });
    answer = ledBy('pod-1_x');
    const texts = explainCommand(['echo/hello', '--follow'], folder);
    expect((await texts.next()).value).toContain('leader: pod-1_x');
    const next = texts.next();
    answer = ledBy('pod-2_y');
    expect((await next).value).toContain('leader: pod-2_y');
    await texts.return();
  });

  const object = 'takes KIND/NAME, as echo/hello, or --since SECONDS';
  const seconds = 'takes a number of seconds above 0, as 300';
  test.each([
    [[], `got nothing, ${object}`],
    [['echo'], `got echo, ${object}`],
    [['echo/'], `got echo/, ${object}`],
    [['a/b/c'], `got a/b/c, ${object}`],
    [['echo/a', 'echo/b'], `got echo/a echo/b, ${object}`],
    [['echo/a', '--nosuch'], "Unknown option '--nosuch'"],
    [['--since', 'x'], `--since: got x, ${seconds}`],
    [['--since', '5m'], `--since: got 5m, ${seconds}`],
    [['--since', ''], `--since: got nothing, ${seconds}`],
    [['--since=-1'], `--since: got -1, ${seconds}`],
    [['--since', '1e999'], `--since: got 1e999, ${seconds}`],
    [['echo/a', '--since', '5'], `got echo/a and --since 5, takes one of them`],
  ])('refuses the arguments %j: %s', async (args, message) => {
    await expect(explained(args)).rejects.toMatchObject({ name: 'ExplainUsageError', message: `explain: ${message}` });
  });

  test('fails without a folder, without an operator, and for an unknown kind', async () => {
    await expect(explainCommand(['echo/hello'], undefined).next()).rejects.toThrow('EXPLAIN_DIR is not set');
    await expect(explainCommand(['echo/hello'], join(folder, 'none')).next()).rejects.toThrow(ExplainError);
    answer = { problem: 'this operator reconciles no kind echo', notes: [] };
    await expect(explained(['echo/hello'])).rejects.toThrow('reconciles no kind echo');
  });
});
