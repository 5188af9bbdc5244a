/**
 * Records the requests of integration tests and of `perturb`, and replays them against the simulated API server.
 *
 *     node test/replay.ts            records and replays
 *     node test/replay.ts FOLDER     replays the recordings of a folder (RECORD_REQUESTS=FOLDER makes some)
 *
 * Exits with 0 if no response differs, apart from the differences in docs/testing.md, which it counts.
 */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { recordRequests } from '../testkit/control-plane.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { replayFolder } from './integration/environment/replay.ts';

const files = 'integration/(echo|scheduled-echo|pod-set|apply|controller|own-writes|book-store|same-name)\\.test';

/** A test may fail because a recording is slow. Its requests count all the same. */
async function record(folder: string): Promise<void> {
  const options = { reject: false, stdout: 'ignore', stderr: 'ignore' } as const;
  const jest = ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--selectProjects', 'integration'];
  await execa(process.execPath, [...jest, '--testPathPatterns', files], {
    ...options,
    env: { [recordRequests]: folder },
  });
  for (const plan of ['echo', 'scheduled-echo'])
    await execa(process.execPath, ['test/perturb.ts'], { ...options, env: { [recordRequests]: folder, PLAN: plan } });
}

const [given] = process.argv.slice(2);
const run = await makeRunFolder('replay');
try {
  const folder = given ?? join(run, 'recordings');
  if (given === undefined) {
    await mkdir(folder);
    await record(folder);
  }
  const { requests, equal, notSimulated, differing, events } = await replayFolder(folder);
  for (const [reason, count] of [...notSimulated].sort(([, one], [, other]) => other - one))
    console.log(`${count} not compared: ${reason}`);
  for (const difference of differing) console.error(`${difference}\n`);
  console.log(`${requests} requests, ${equal} equal, with ${events} events of watches, ${differing.length} differing`);
  process.exitCode = differing.length > 0 || equal === 0 ? 1 : 0;
} finally {
  await rm(run, { recursive: true, force: true });
}
