/**
 * The program behind `make explore`: runs the scenarios that a simulation knows, without an API server, under random
 * schedules. Without EXPLORE_SEED, which repeats those, it first tries every schedule that deviates once from the
 * undisturbed run.
 *
 *     node test/explore.ts    explores the scenarios whose names begin with SCENARIO (default: all), from EXPLORE_SEED (default: a random
 *                             number, which it prints) and for MINUTES (default: 40)
 *
 * Ends after the batch in which a schedule failed. Exits with 0 if none did.
 */
import { randomInt } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ExplorationError, type ExploreOptions, explore } from '@echoperator/testing/simulation';
import { execa } from 'execa';
import { simulatedScenarios } from './integration/environment/simulated-scenarios.ts';

const { SCENARIO = '', EXPLORE_SEED, MINUTES = '40' } = process.env;

/** The schedules of each scenario in a batch. */
const runs = 100;

// Read before the simulations replace the clock and the random numbers.
const firstSeed = EXPLORE_SEED === undefined ? randomInt(2 ** 30) : Number(EXPLORE_SEED);
const chosen = [...simulatedScenarios].filter(([name]) => name.startsWith(SCENARIO));
const endsAtMs = performance.now() + Number(MINUTES) * 60_000;

const tellShortening = ({ message, story }: ExplorationError): void =>
  console.log(`a schedule of ${story.length} steps failed, and is being shortened: ${message.split('\n', 1)[0]}`);

/**
 * Returns how many schedules were tried, undefined if one failed: that one is reported. The message has only the last
 * steps.
 */
async function tried(name: string, command: string, options: ExploreOptions): Promise<number | undefined> {
  try {
    return (await explore({ ...options, onFailure: tellShortening })).runs;
  } catch (error) {
    if (!(error instanceof ExplorationError)) throw error;
    const file = join(tmpdir(), `explore-${name}.log`);
    await writeFile(file, `${command}\n${error.message}\n\n${error.story.join('\n')}\n`);
    console.error(`${command}\n${error.message}\nThey are also in ${file}\n`);
    process.exitCode = 1;
    return undefined;
  }
}

async function runBatch(seed: number): Promise<void> {
  let total = 0;
  for (const [name, scenario] of chosen) {
    const command = `make explore SCENARIO=${name} EXPLORE_SEED=${seed} MINUTES=0`;
    total += (await tried(name, command, { ...scenario, runs, seed })) ?? 0;
  }
  console.log(`seed ${seed}: ${total} schedules of ${chosen.length} scenarios`);
}

if (MINUTES === '0' && EXPLORE_SEED !== undefined) await runBatch(firstSeed);
else {
  for (const [name, scenario] of EXPLORE_SEED === undefined ? chosen : []) {
    const count = await tried(name, 'one deviation:', { ...scenario, maxDeviations: 1 });
    if (count !== undefined) console.log(`${name}: ${count} schedules with one deviation`);
  }
  // A process for each batch: Node.js keeps the signals for which a crashed process has waited, and with them its
  // caches.
  for (let seed = firstSeed; process.exitCode !== 1; seed += 1) {
    const env = { EXPLORE_SEED: String(seed), MINUTES: '0' };
    const { exitCode } = await execa(process.execPath, [import.meta.filename], {
      env,
      stdio: 'inherit',
      reject: false,
    });
    if (exitCode !== 0) process.exitCode = 1;
    if (performance.now() >= endsAtMs) break;
  }
}
