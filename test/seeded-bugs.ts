/**
 * The program behind `make seeded-bugs`: adds one bug after the other to a copy of the source, and runs plans of the perturbation and
 * mutation kits, or properties of the unit tests, against it, to show that these find bugs.
 *
 *     node test/seeded-bugs.ts    tries the bugs whose names begin with BUG, such as `Pet` (default: all)
 *
 * Exits with 0 if the kits find at least 95 % of the bugs, and nothing in the source without a bug.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { startControlPlane } from '../testkit/control-plane.ts';
import { forEachConcurrently } from '../testkit/for-each-concurrently.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { OutsidePrograms } from './integration/environment/outside-systems.ts';
import { seededBugs } from './seeded-bugs/index.ts';
import type { FoundBy, PlansRequest, PlansResult } from './seeded-bugs/run-plans.ts';
import { type Plans, type SeededBug, SourceCopy, textWith } from './seeded-bugs/seeded-bug.ts';

const { BUG = '' } = process.env;

/** The part of the bugs that the kits must find. */
const requiredRate = 0.95;

/** How long the plans of a bug, and the plans of all bugs, may take. */
const [bugTimeoutMs, allTimeoutMs] = [240_000, 1_200_000];

interface Tried {
  readonly name: string;
  /** The first line of the first failure that a kit reported; undefined: it reported none. */
  readonly failure: string | undefined;
  readonly foundBy: FoundBy | undefined;
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
    const { settings } = resources.use(await OutsidePrograms.start(folder));
    const { config, auditLog } = controlPlane;
    return new Programs(folder, { kubeconfig: config.kubeconfigPath, auditLog, settings }, resources.move());
  }

  /** Runs plans with a copy of the source. @throws Error if the plans could not be run */
  async run(bug: SeededBug | undefined, plans: Plans): Promise<PlansResult> {
    this.#copies += 1;
    await using copy = await SourceCopy.make(join(this.#folder, `copy-${this.#copies}`), bug);
    if (plans.properties !== undefined) return await runProperties(copy.folder, plans.properties);
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

/** Runs unit tests of a copy of the source. */
async function runProperties(cwd: string, properties: readonly string[]): Promise<PlansResult> {
  const args = [
    'run',
    '--silent',
    'jest',
    '--',
    '--selectProjects',
    'unit',
    '--testPathPatterns',
    properties.join('|'),
  ];
  const { failed, stderr } = await execa('npm', args, { cwd, env: histories, reject: false, timeout: bugTimeoutMs });
  const message = stderr
    .split('\n')
    .find((line) => line.includes('Property failed'))
    ?.trim();
  // A copy whose tests could not run has found nothing.
  if (failed && message === undefined) throw new Error(stderr);
  return { plans: properties, failures: message === undefined ? [] : [message], foundBy: 'property' };
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
  const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(0);
  const verdict = foundBy === undefined ? 'NOT FOUND' : `found by ${foundBy}`;
  console.log(`${verdict} in ${seconds} s: ${bug.name}\n    ${failure ?? ''}`);
  return { name: bug.name, failure, foundBy };
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

const startedAtMs = performance.now();
const bugs = seededBugs.filter(({ name }) => name.startsWith(BUG));
const folder = await makeRunFolder('seeded-bugs');
try {
  const tried = await tryAll(folder, bugs);
  const survivors = tried.filter(({ failure }) => failure === undefined);
  const rate = 1 - survivors.length / tried.length;
  const minutes = ((performance.now() - startedAtMs) / 60_000).toFixed(1);
  const found = tried.length - survivors.length;
  const foundBy = (['undisturbed run', 'perturbation', 'mutation', 'property'] as const).map(
    (kit) => `${tried.filter((each) => each.foundBy === kit).length} by ${kit}`,
  );
  console.log(
    `${found} of ${tried.length} seeded bugs found (${(rate * 100).toFixed(0)} %): ${foundBy.join(', ')}; ${minutes} minutes`,
  );
  for (const { name } of survivors) console.log(`not found: ${name}`);
  process.exitCode = rate >= requiredRate ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
