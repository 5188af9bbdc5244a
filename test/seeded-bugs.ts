/**
 * The program behind `make seeded-bugs`: adds one bug after the other to a copy of the source, and runs plans of the
 * perturbation and mutation kits, or properties of the unit tests, against it, to show that these find bugs.
 *
 *     node test/seeded-bugs.ts    tries the bugs whose names begin with BUG, such as `Pet` (default: all), in WAY (default: both)
 *
 * WAY is `simulation` (`explore`, or unit tests, in a process for each bug, without an API server) or `cluster`
 * (`perturb`, `mutate` and unit tests).
 *
 * Exits with 0 if each way finds at least 95 % of the bugs that it has plans for, and nothing in the source without a
 * bug.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { forEachConcurrently } from '../packages/testing/src/for-each-concurrently.ts';
import { startControlPlane } from '../testkit/control-plane.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { ExternalPrograms } from './integration/environment/external-systems.ts';
import { seededBugs } from './seeded-bugs/index.ts';
import type { ExploreRequest, ExploreResult } from './seeded-bugs/run-explore.ts';
import type { FoundBy, PlansRequest, PlansResult } from './seeded-bugs/run-plans.ts';
import { type Plans, type SeededBug, SourceCopy, textWith } from './seeded-bugs/seeded-bug.ts';

const { BUG = '', WAY = '' } = process.env;

/** The part of the bugs that the kits must find. */
const requiredRate = 0.95;

/** How long the plans of a bug, its schedules in a simulation, and the plans of all bugs, may take. */
const [bugTimeoutMs, exploreTimeoutMs, allTimeoutMs] = [240_000, 600_000, 1_200_000];

/**
 * How many schedules a simulation tries of each scenario: most bugs show themselves in the first, the rarest after some
 * hundred.
 */
const schedules = 2000;

interface Tried {
  readonly name: string;
  /** The first line of the first failure that a kit reported; undefined: it reported none. */
  readonly failure: string | undefined;
  readonly foundBy: FoundBy | 'exploration' | undefined;
  readonly seconds: number;
  /** The processor time, if it is known. */
  readonly cpuSeconds?: number | undefined;
}

/** Programs that all plans share. */
class Programs implements AsyncDisposable {
  readonly #folder: string;
  readonly #request: Omit<PlansRequest, 'plans'>;
  readonly #resources: AsyncDisposableStack;
  #copies = 0;

  private constructor(folder: string, request: Omit<PlansRequest, 'plans'>, resources: AsyncDisposableStack) {
    this.#folder = folder;
    this.#request = request;
    this.#resources = resources;
  }

  static async start(folder: string): Promise<Programs> {
    await using resources = new AsyncDisposableStack();
    const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../crds')], { kwok: true });
    resources.defer(() => controlPlane.stop());
    const { settings } = resources.use(await ExternalPrograms.start(folder));
    const { config, auditLog } = controlPlane;
    return new Programs(folder, { kubeconfig: config.kubeconfigPath, auditLog, settings }, resources.move());
  }

  /** Runs plans with a copy of the source. @throws Error if the plans could not be run */
  async run(bug: SeededBug | undefined, plans: Plans): Promise<PlansResult> {
    this.#copies += 1;
    await using copy = await SourceCopy.make(join(this.#folder, `copy-${this.#copies}`), bug);
    if (plans.properties !== undefined)
      return await runUnitTests(copy.folder, plans.properties, { foundBy: 'property', sign: 'Property failed' });
    const request: PlansRequest = { ...this.#request, plans };
    const program = join(copy.folder, 'test/seeded-bugs/run-plans.ts');
    const { stdout } = await execa(process.execPath, [program, JSON.stringify(request)], {
      timeout: bug === undefined ? allTimeoutMs : bugTimeoutMs,
    });
    return JSON.parse(stdout.split('\n').at(-1) ?? '');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** More histories than in the push: some bugs show themselves in one of thousands. */
const histories = { OVERLAY_RUNS: '100000', OWN_WRITES_RUNS: '5000' };

/** Runs unit tests of a copy of the source. @param sign in the line that reports a failure */
async function runUnitTests(
  cwd: string,
  files: readonly string[],
  { foundBy, sign }: { readonly foundBy: FoundBy; readonly sign: string },
): Promise<PlansResult> {
  const args = ['run', '--silent', 'jest', '--', '--selectProjects', 'unit', '--testPathPatterns', files.join('|')];
  const { failed, stderr } = await execa('npm', args, { cwd, env: histories, reject: false, timeout: bugTimeoutMs });
  const message = stderr
    .split('\n')
    .find((line) => line.includes(sign))
    ?.trim();
  // A copy whose tests could not run has found nothing.
  if (failed && message === undefined) throw new Error(stderr);
  return { plans: files, failures: message === undefined ? [] : [message], foundBy };
}

/** Explores scenarios with a copy of the source, in a process of its own: a simulation replaces its globals. */
async function exploreCopy(
  folder: string,
  bug: SeededBug | undefined,
  request: Pick<ExploreRequest, 'scenarios' | 'runs'>,
): Promise<ExploreResult> {
  const number = `explored-${bug === undefined ? 'source' : seededBugs.indexOf(bug)}`;
  await using copy = await SourceCopy.make(join(folder, number), bug);
  const program = join(copy.folder, 'test/seeded-bugs/run-explore.ts');
  const { stdout } = await execa(process.execPath, [program, JSON.stringify({ ...request, seed: 1 })], {
    timeout: bug === undefined ? allTimeoutMs : exploreTimeoutMs,
  });
  return JSON.parse(stdout.split('\n').at(-1) ?? '');
}

/** Runs the unit tests of a bug that no scenario has. */
async function testBug(folder: string, bug: SeededBug, files: readonly string[]): Promise<Tried> {
  const startedAtMs = performance.now();
  await using copy = await SourceCopy.make(join(folder, `tested-${seededBugs.indexOf(bug)}`), bug);
  const result = await runUnitTests(copy.folder, files, { foundBy: 'unit test', sign: '●' });
  const failure = result.failures[0];
  const foundBy = failure === undefined ? undefined : result.foundBy;
  return tell({ name: bug.name, failure, foundBy, seconds: (performance.now() - startedAtMs) / 1000 });
}

async function exploreBug(folder: string, bug: SeededBug): Promise<Tried> {
  if (bug.plans.tests !== undefined) return await testBug(folder, bug, bug.plans.tests);
  const startedAtMs = performance.now();
  const scenarios = bug.plans.explore ?? [];
  const result = await exploreCopy(folder, bug, { scenarios, runs: schedules }).catch((error: unknown) => {
    console.error(error);
    return undefined;
  });
  const seconds = (performance.now() - startedAtMs) / 1000;
  const failure = result?.failure?.split('\n', 1)[0];
  const foundBy = failure === undefined ? undefined : result?.isDisturbed ? 'exploration' : 'undisturbed run';
  return tell({ name: bug.name, failure, foundBy, seconds, cpuSeconds: result?.cpuSeconds });
}

function tell(tried: Tried): Tried {
  const { name, failure, foundBy, seconds, cpuSeconds } = tried;
  const verdict = foundBy === undefined ? 'NOT FOUND' : `found by ${foundBy}`;
  const ofProcessor = cpuSeconds === undefined ? '' : ` (${cpuSeconds.toFixed(1)} s of a processor)`;
  console.log(`${verdict} in ${seconds.toFixed(1)} s${ofProcessor}: ${name}\n    ${failure ?? ''}`);
  return tried;
}

async function exploreAll(folder: string, all: readonly SeededBug[]): Promise<readonly Tried[]> {
  await Promise.all(all.map(textWith));
  const simulated = all.filter(({ plans }) => (plans.explore ?? plans.tests) !== undefined);
  for (const { name, notSimulated } of all) if (notSimulated) console.log(`not simulated: ${name}: ${notSimulated}`);
  const scenarios = [...new Set(simulated.flatMap(({ plans }) => plans.explore ?? []))];
  const { failure } =
    scenarios.length === 0 ? { failure: undefined } : await exploreCopy(folder, undefined, { scenarios, runs: 30 });
  if (failure !== undefined) throw new Error(`a schedule fails without a bug: ${failure}`);
  const tried: Tried[] = [];
  await forEachConcurrently(simulated, async (bug) => void tried.push(await exploreBug(folder, bug)), 2);
  return tried;
}

async function tryBug(programs: Programs, bug: SeededBug): Promise<Tried> {
  const startedAtMs = performance.now();
  const result = await programs.run(bug, bug.plans).catch((error: unknown) => {
    // The bug may have ended the program: that is no finding of a kit.
    console.error(error);
    return undefined;
  });
  const failure = result?.failures[0]?.split('\n', 1)[0];
  const foundBy = failure === undefined ? undefined : result?.foundBy;
  return tell({ name: bug.name, failure, foundBy, seconds: (performance.now() - startedAtMs) / 1000 });
}

/** @returns the plans of all bugs */
const plansOf = (bugs: readonly SeededBug[]): Plans => ({
  perturb: [...new Set(bugs.flatMap(({ plans }) => plans.perturb ?? []))],
  mutate: [...new Set(bugs.flatMap(({ plans }) => plans.mutate ?? []))],
});

async function tryAll(folder: string, bugs: readonly SeededBug[]): Promise<readonly Tried[]> {
  await Promise.all(bugs.map(textWith));
  await using programs = await Programs.start(folder);
  const { plans, failures } = await programs.run(undefined, plansOf(bugs));
  console.log(`without a bug: ${plans.length} plans, ${failures.length} failures`);
  if (failures.length > 0) throw new Error(`a plan fails without a bug: ${failures.join('\n')}`);
  const tried: Tried[] = [];
  const tryOne = async (bug: SeededBug): Promise<void> => void tried.push(await tryBug(programs, bug));
  // An operator of `mutate` reconciles the objects of all namespaces, so nothing else may run beside it.
  await forEachConcurrently(
    bugs.filter(({ plans: { mutate } }) => mutate === undefined),
    tryOne,
    2,
  );
  await forEachConcurrently(
    bugs.filter(({ plans: { mutate } }) => mutate !== undefined),
    tryOne,
    1,
  );
  return tried;
}

/** Prints what a way has found, and returns whether that is enough. */
function summarize(way: string, tried: readonly Tried[]): boolean {
  const found = tried.filter(({ foundBy }) => foundBy !== undefined);
  const rate = tried.length === 0 ? 1 : found.length / tried.length;
  const kits = ['undisturbed run', 'perturbation', 'mutation', 'property', 'exploration', 'unit test'] as const;
  const counts = kits.map((kit) => [found.filter(({ foundBy }) => foundBy === kit).length, kit] as const);
  const foundBy = counts.filter(([count]) => count > 0).map(([count, kit]) => `${count} by ${kit}`);
  const seconds = found.map((each) => each.seconds).sort((one, other) => one - other);
  const median = seconds[Math.floor(seconds.length / 2)] ?? 0;
  console.log(
    `${way}: ${found.length} of ${tried.length} seeded bugs found (${(rate * 100).toFixed(0)} %): ${foundBy.join(', ')}; a bug takes ${median.toFixed(1)} s (median), ${(seconds.at(-1) ?? 0).toFixed(0)} s at most`,
  );
  for (const { name } of tried.filter((each) => each.foundBy === undefined)) console.log(`not found: ${name}`);
  return rate >= requiredRate;
}

/** Prints the seconds of bugs that both ways have tried. */
function compare(simulated: readonly Tried[], onCluster: readonly Tried[]): void {
  const secondsOf = ({ foundBy, seconds }: Tried): string =>
    foundBy === undefined ? 'not found' : `${seconds.toFixed(1)} s`;
  for (const each of simulated) {
    const other = onCluster.find(({ name }) => name === each.name);
    if (other !== undefined)
      console.log(`${each.name}: ${secondsOf(each)} in simulation, ${secondsOf(other)} on a cluster`);
  }
}

const bugs = seededBugs.filter(({ name }) => name.startsWith(BUG));
const folder = await makeRunFolder('seeded-bugs');
try {
  const simulated = WAY === 'cluster' ? [] : await exploreAll(folder, bugs);
  const withPlans = bugs.filter(({ plans: { perturb, mutate, properties } }) => perturb ?? mutate ?? properties);
  const onCluster = WAY === 'simulation' ? [] : await tryAll(folder, withPlans);
  compare(simulated, onCluster);
  const isEnough = [
    WAY === 'cluster' || summarize('in simulation', simulated),
    WAY === 'simulation' || summarize('on a cluster', onCluster),
  ];
  process.exitCode = isEnough.every(Boolean) ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
