import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { type CandidateRequest, handoverMs, readCandidateRequests, requestsPerHour } from '../failover/audit.ts';
import { electing, randomPauseMs, timings } from '../failover/elections.ts';
import { type Operator, operatorNames } from '../operators.ts';

const request = (candidate: string, receivedMs: number, verb: string, resource?: string): CandidateRequest => ({
  candidate,
  receivedMs,
  verb,
  ...(resource !== undefined && { resource }),
});

describe('the audit log', () => {
  const user = (name: string, pod?: string) => ({
    username: `system:serviceaccount:bench:${name}`,
    ...(pod !== undefined && { extra: { 'authentication.kubernetes.io/pod-name': [pod] } }),
  });
  const readOf = async (...lines: readonly string[]): Promise<readonly CandidateRequest[]> => {
    const folder = await mkdtemp(join(tmpdir(), 'bench-failover-'));
    try {
      await writeFile(join(folder, 'audit.log'), lines.join('\n'));
      return await readCandidateRequests(join(folder, 'audit.log'), 'bench');
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };

  test("returns the candidates' requests in the order of their arrival, by the names of pods, to the microsecond", async () => {
    const line = (event: object): string => JSON.stringify(event);
    const requests = await readOf(
      line({
        verb: 'patch',
        user: user('warm-1'),
        requestReceivedTimestamp: '1970-01-01T00:00:02.000250Z',
        objectRef: { resource: 'echos', subresource: 'status', namespace: 'bench' },
      }),
      line({
        verb: 'create',
        user: user('default', 'ours-7d9'),
        requestReceivedTimestamp: '1970-01-01T00:00:01.500000Z',
        objectRef: { resource: 'jobs', namespace: 'bench' },
      }),
      line({ verb: 'get', user: user('warm-1'), requestReceivedTimestamp: '1970-01-01T00:00:03Z' }),
      line({
        verb: 'update',
        user: { username: 'admin' },
        requestReceivedTimestamp: '1970-01-01T00:00:03.000000Z',
        objectRef: { resource: 'serviceaccounts', name: 'system:serviceaccount:bench:warm-1' },
      }),
      // The server is still writing this one.
      line({ verb: 'get', user: user('warm-1'), requestReceivedTimestamp: '1970-01-01T00:00:04Z' }).slice(0, -9),
    );
    expect(requests).toEqual([
      request('ours-7d9', 1500, 'create', 'jobs'),
      request('system:serviceaccount:bench:warm-1', 2000.25, 'patch', 'echos/status'),
      request('system:serviceaccount:bench:warm-1', 3000, 'get'),
    ]);
  });
});

describe('a handover', () => {
  test('ends with the first write of a Job or of a status by the next leader', () => {
    const requests = [
      request('old', 1010, 'create', 'jobs'),
      request('next', 1020, 'update', 'leases'),
      request('next', 1030, 'list', 'jobs'),
      request('next', 1040, 'create', 'events'),
      request('next', 1050, 'patch', 'echos/status'),
      request('next', 1060, 'create', 'jobs'),
    ];
    expect(handoverMs(requests, { signalledMs: 1000, next: 'next' })).toBe(50);
  });

  test('to a candidate that wrote nothing is rejected', () => {
    const requests = [request('old', 1010, 'create', 'jobs'), request('next', 1020, 'update', 'leases')];
    expect(() => handoverMs(requests, { signalledMs: 1000, next: 'next' })).toThrow(
      'next leads but has written nothing',
    );
  });

  test('to a candidate that wrote while it stood by is rejected', () => {
    const requests = [request('next', 990, 'create', 'jobs'), request('next', 1020, 'create', 'jobs')];
    expect(() => handoverMs(requests, { signalledMs: 1000, next: 'next' })).toThrow(
      'next wrote 10 ms before the leader was signalled',
    );
  });

  test('to another container of the same pod ignores the requests of the killed container', () => {
    const requests = [
      request('pod', 990, 'create', 'jobs'),
      request('pod', 1002, 'create', 'jobs'),
      request('pod', 4000, 'create', 'jobs'),
    ];
    expect(handoverMs(requests, { signalledMs: 1000, next: 'pod', nextLedFromMs: 3900 })).toBe(3000);
    expect(() => handoverMs(requests, { signalledMs: 1000, next: 'pod', nextLedFromMs: 900 })).toThrow(
      'pod led before the signal',
    );
  });
});

test('requests per hour count only the given candidates and period', () => {
  const requests = [
    request('one', 999, 'update', 'leases'),
    request('one', 1000, 'update', 'leases'),
    request('two', 2500, 'watch', 'leases'),
    request('three', 2500, 'get', 'leases'),
    request('one', 3999, 'get'),
    request('one', 4000, 'update', 'leases'),
  ];
  expect(requestsPerHour(requests, ['one', 'two'], { fromMs: 1000, toMs: 4000 })).toBe(3600);
});

describe('the operators with leader election', () => {
  const operators = operatorNames.map((name): Operator => ({ name, command: [name], environment: {} }));
  const who = electing(operators);

  test('are ours and the Go peer', () => {
    expect(who.map(({ operator }) => operator.name)).toEqual(['echoperator', 'controller-runtime']);
  });

  test.each(who)('have equal timings, and a setting for warm standbys: $operator.name', ({ election }) => {
    const lease = { namespace: 'bench', name: 'lease' };
    const [cold, warm] = [election.environment(lease, 'cold'), election.environment(lease, 'warm')];
    const numbers = Object.values(cold).map((value) => Number.parseInt(value, 10));
    expect(numbers).toEqual(expect.arrayContaining(Object.values(timings)));
    expect(Object.keys(cold).filter((name) => cold[name] !== warm[name])).toHaveLength(1);
  });
});

test("a leader ends at a random moment between two of client-go's attempts", () => {
  // It asks every 2 to 4.4 s: one period is waited, and then any part of the mean of 3.2 s.
  expect([0, 0.5, 1].map((random) => randomPauseMs(() => random))).toEqual([2000, 3600, 5200]);
});
