/**
 * The soak test behind `make soak`: random faults between a manager and an API server.
 *
 *     node test/soak.ts        runs for SOAK_MINUTES (10); FAULTS_SEED repeats the faults of another run
 *
 * After each round of faults the stores must equal the cluster, and all changes must be reconciled. The heap must stay
 * flat: its size after a garbage collection, measured once per round, must increase by less than a tenth over the whole
 * time, by least squares. The first fifth does not count, because code that runs for the first time allocates memory
 * permanently.
 *
 * Exits with 0 if the test passes, 1 if it fails.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApiServer, FaultProxy } from '@echoperator/testing';
import fc from 'fast-check';
import { HttpClient } from '../packages/runtime/src/client/http-client.ts';
import { Transport } from '../packages/runtime/src/client/transport.ts';
import { apiServerPrograms } from '../testkit/api-server-programs.ts';
import { freePorts } from '../testkit/free-ports.ts';
import { minutesOf } from '../testkit/random-runs.ts';
import { steps, take, watching } from './integration/faults/environment/random-faults.ts';
import { SubjectProcess } from './integration/faults/environment/subject-process.ts';
import { World } from './integration/faults/environment/world.ts';
import { relativeIncrease, type Sample } from './run/heap-trend.ts';

const minutes = minutesOf('SOAK_MINUTES', process.env);
const seed = Number(process.env.FAULTS_SEED ?? Math.floor(Math.random() * 2 ** 30));
const maxIncrease = 0.1;
/** A run on two busy cores has about 37. */
const minFaultsPerMinute = 5;
const namespace = 'default';

async function soak(folder: string): Promise<boolean> {
  const [port] = await freePorts();
  await using server = await ApiServer.start({
    assets: await apiServerPrograms(folder),
    folder,
    port,
    crds: [join(import.meta.dirname, '../crds')],
  });
  await using proxy = await FaultProxy.start({ upstream: server.connection, tls: server.tls });
  const transport = new Transport(server.connection, { userAgent: 'soak' });
  const world = new World(new HttpClient(transport, 'soak'), namespace, 200);
  try {
    await world.populate();
    const { server: url, tls } = proxy.connection;
    const [options] = fc.sample(watching, { seed, numRuns: 1 });
    console.log(`Informers: ${JSON.stringify(options)}`);
    await using subject = await SubjectProcess.start({
      server: url.href,
      tls,
      namespace,
      ...(options && { watching: options }),
    });
    const samples = await rounds(proxy, world, subject);
    const increase = relativeIncrease(samples);
    console.log(`The heap increased by ${(increase * 100).toFixed(1)} %. The limit is ${maxIncrease * 100} %.`);
    return increase < maxIncrease;
  } finally {
    await transport.close();
  }
}

/** Runs rounds until the time is over. Prints a line per minute. */
async function rounds(proxy: FaultProxy, world: World, subject: SubjectProcess): Promise<readonly Sample[]> {
  const startedAtMs = performance.now();
  const samples: Sample[] = [];
  let faults = 0;
  for (let round = 0, lines = 0; performance.now() - startedAtMs < minutes * 60_000; round += 1) {
    const [sequence = []] = fc.sample(steps, { seed: seed + round, numRuns: 1 });
    for (const count of (await take(sequence, { proxy, world })).values()) faults += count;
    await world.converge(subject);
    const elapsedMs = performance.now() - startedAtMs;
    const heapBytes = await subject.ask('heap');
    samples.push({ elapsedMs, heapBytes });
    if (elapsedMs >= (lines + 1) * 60_000) {
      lines = Math.floor(elapsedMs / 60_000);
      const reconciles = await subject.ask('reconciles');
      const heap = (heapBytes / 1024 / 1024).toFixed(1);
      console.log(`minute ${lines}: ${round + 1} rounds, ${faults} faults, ${reconciles} reconciles, heap ${heap} MiB`);
    }
  }
  if (faults < minutes * minFaultsPerMinute) {
    throw new Error(`only ${faults} faults happened in ${minutes} minutes: fewer than ${minFaultsPerMinute} a minute`);
  }
  return samples;
}

console.log(`Random faults for ${minutes} minutes, FAULTS_SEED=${seed}`);
const folder = await mkdtemp(join(tmpdir(), 'echoperator-soak-'));
try {
  process.exitCode = (await soak(folder)) ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
