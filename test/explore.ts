/**
 * The program behind `make explore`: runs the scenarios that a simulation knows, without an API server, under random
 * schedules. Without EXPLORE_SEED, which repeats those, it first tries every schedule that deviates once from the
 * undisturbed run.
 *
 *     node test/explore.ts    explores the scenarios whose names begin with SCENARIO (default: all), from EXPLORE_SEED (default: a random
 *                             number, which it prints) and for MINUTES (default: 40)
 *
 * Exits with 0 if no schedule failed.
 */
import { randomInt } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ExplorationError, explore } from '@echoperator/testing/simulation';
import { simulatedScenarios } from './integration/environment/simulated-scenarios.ts';

const { SCENARIO = '', EXPLORE_SEED, MINUTES = '40' } = process.env;

/** A batch has a seed of its own, so that a failure is repeated soon. */
const runs = 100;

// Read before the simulations replace the clock and the random numbers.
const seed = EXPLORE_SEED === undefined ? randomInt(2 ** 31) : Number(EXPLORE_SEED);
const chosen = [...simulatedScenarios].filter(([name]) => name.startsWith(SCENARIO));
const endsAtMs = performance.now() + Number(MINUTES) * 60_000;
console.log(`seed ${seed}, ${chosen.length} scenarios`);
const counts = new Map(chosen.map(([name]) => [name, 0]));
const failed = new Set<string>();

const tellShortening = ({ message, story }: ExplorationError): void =>
  console.log(`a schedule of ${story.length} steps failed, and is being shortened: ${message.split('\n', 1)[0]}`);

/** The message has only the last steps. */
async function report(name: string, message: string, { story }: ExplorationError): Promise<void> {
  const file = join(tmpdir(), `explore-${name}.log`);
  await writeFile(file, `${message}\n\n${story.join('\n')}\n`);
  console.error(`${message}\nThey are also in ${file}\n`);
}

for (const [name, scenario] of EXPLORE_SEED === undefined ? chosen : []) {
  try {
    const { runs: tried } = await explore({ ...scenario, maxDeviations: 1 });
    console.log(`${name}: ${tried} schedules with one deviation`);
  } catch (error) {
    if (!(error instanceof ExplorationError)) throw error;
    failed.add(name);
    await report(name, `one deviation: ${error.message}`, error);
  }
}
for (let batch = 0; batch === 0 || performance.now() < endsAtMs; batch += 1) {
  for (const [name, scenario] of chosen.filter(([each]) => !failed.has(each))) {
    const batchSeed = (seed + batch) % 2 ** 31;
    try {
      const { runs: tried } = await explore({ ...scenario, runs, seed: batchSeed, onFailure: tellShortening });
      counts.set(name, (counts.get(name) ?? 0) + tried);
    } catch (error) {
      if (!(error instanceof ExplorationError)) throw error;
      failed.add(name);
      const command = `make explore SCENARIO=${name} EXPLORE_SEED=${batchSeed} MINUTES=0`;
      await report(name, `${command}\n${error.message}`, error);
    }
    // The last batch may end early.
    if (batch > 0 && performance.now() >= endsAtMs) break;
  }
}
for (const [name, count] of counts) console.log(`${name}: ${count} schedules${failed.has(name) ? ', one failed' : ''}`);
process.exitCode = failed.size === 0 ? 0 : 1;
