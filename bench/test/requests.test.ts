import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { mostRefusals, perEcho, readRequests, readRequestsFor, readWatches } from '../requests.ts';

interface Request {
  readonly verb: string;
  readonly resource: string;
  readonly name?: string;
  readonly from: number;
  readonly to: number;
  readonly userAgent?: string;
  readonly subresource?: string;
  /** Default: 200. */
  readonly code?: number;
}

const at = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, '0')}.000000Z`;

const line = ({ verb, userAgent = 'operator', from, to, code = 200, ...objectRef }: Request): string =>
  JSON.stringify({
    verb,
    userAgent,
    requestReceivedTimestamp: at(from),
    stageTimestamp: at(to),
    responseStatus: { code },
    objectRef,
  });

const withAuditLog = async (requests: readonly Request[], work: (log: string) => Promise<void>): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'bench-requests-'));
  try {
    const log = join(folder, 'audit.log');
    await writeFile(log, `${requests.map(line).join('\n')}\n`);
    await work(log);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

test("the operator's requests are counted by verb and resource, and timed from the first creation to its last write", async () => {
  const requests: readonly Request[] = [
    { verb: 'create', resource: 'echos', name: 'steady-1', from: 1, to: 2, userAgent: 'bench' },
    { verb: 'create', resource: 'echos', name: 'burst-1', from: 10, to: 12, userAgent: 'bench' },
    { verb: 'create', resource: 'echos', name: 'burst-2', from: 11, to: 13, userAgent: 'bench' },
    { verb: 'create', resource: 'jobs', name: 'burst-1', from: 13, to: 14 },
    { verb: 'create', resource: 'jobs', name: 'burst-2', from: 13, to: 15 },
    { verb: 'patch', resource: 'echos', subresource: 'status', name: 'burst-2', from: 15, to: 16 },
    { verb: 'create', resource: 'events', name: 'burst-2.1f', from: 16, to: 18 },
    { verb: 'get', resource: 'jobs', name: 'burst-2', from: 18, to: 30 },
    { verb: 'create', resource: 'jobs', name: 'steady-1', from: 40, to: 41 },
    { verb: 'watch', resource: 'jobs', from: 41, to: 42, code: 429 },
    { verb: 'watch', resource: 'jobs', from: 42, to: 43 },
  ];
  await withAuditLog(requests, async (log) => {
    const counted = await readRequests(log, 'burst-');
    expect(counted.seconds).toBe(8);
    expect(perEcho(counted, 2)).toBe('create events 0.5, create jobs 1, get jobs 0.5, patch echos/status 0.5');
    const jobs = await readRequests(log, 'burst-', 'create jobs');
    expect(await readWatches(log)).toBe(1);
    expect(jobs).toEqual({ counts: new Map([['create jobs', 2]]), seconds: 5 });
  });
});

test('requests for the objects of a resource are timed from the first to the last, without the requests of the bench', async () => {
  const requests: readonly Request[] = [
    { verb: 'create', resource: 'pets', name: 'pet-0', from: 1, to: 2, userAgent: 'bench' },
    { verb: 'patch', resource: 'pets', name: 'pet-0', from: 10, to: 12 },
    { verb: 'patch', resource: 'pets', subresource: 'status', name: 'pet-0', from: 12, to: 15 },
    { verb: 'create', resource: 'events', name: 'pet-0.1f', from: 16, to: 18 },
  ];
  await withAuditLog(requests, async (log) => {
    const counted = await readRequestsFor('pets', log);
    expect(counted.seconds).toBe(5);
    expect(perEcho(counted, 1)).toBe('patch pets 1, patch pets/status 1');
  });
});

test('of refused creations those of the worst second count, by the time of the response and the name', async () => {
  const refused = (name: string, to: number, verb = 'create') =>
    ({ verb, resource: 'jobs', name, from: 1, to, code: 500 }) as const;
  const requests: readonly Request[] = [
    refused('busy-1', 9),
    refused('busy-2', 9),
    refused('busy-3', 9),
    refused('busy-1', 10),
    refused('busy-2', 10),
    refused('busy-2', 19),
    refused('busy-2', 20),
    refused('quiet-1', 15),
    refused('busy-1', 15, 'get'),
    { verb: 'create', resource: 'jobs', name: 'busy-3', from: 1, to: 15, code: 201 },
  ];
  await withAuditLog(requests, async (log) => {
    const time = { fromMs: Date.parse(at(10)), toMs: Date.parse(at(20)) };
    expect(await mostRefusals(log, 'busy-', time)).toBe(2);
  });
});
