import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { parse } from 'yaml';

interface Workflow {
  readonly jobs: Readonly<Record<string, { readonly steps?: readonly { name?: string; run?: string }[] }>>;
}

export interface JobOptions {
  /** The checkout. */
  readonly folder: string;
  /** The runner's folder for temporary files. Its folder `release` is the artifact that the jobs pass on. */
  readonly temp: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Replaces what only works on GitHub. */
  readonly rewrite: (script: string) => string;
  /** The names of steps that are not run. */
  readonly skipped?: readonly string[];
}

interface StepResult {
  readonly exitCode: number | undefined;
  /** The step's name and both outputs. */
  readonly all: string;
}

/**
 * Runs the scripts of a job's steps in release.yml, each as GitHub's runner does, until one fails. Actions are not run.
 *
 * @returns the result of each step that ran
 * @throws Error if the job lacks a step of `skipped`
 */
export async function runJob(
  job: string,
  { folder, temp, environment, rewrite, skipped = [] }: JobOptions,
): Promise<readonly StepResult[]> {
  const { jobs } = parse(await readFile(join(folder, '.github/workflows/release.yml'), 'utf8')) as Workflow;
  const scripts = (jobs[job]?.steps ?? []).filter(({ run }) => run !== undefined);
  const missing = skipped.filter((name) => scripts.every((step) => step.name !== name));
  if (scripts.length === 0 || missing.length > 0) throw new Error(`the job ${job} has no step ${missing.join(', ')}`);
  await mkdir(temp, { recursive: true });
  const env = { RUNNER_TEMP: temp, GITHUB_OUTPUT: join(temp, 'output'), ...environment };
  const results: StepResult[] = [];
  for (const { name = '', run = '' } of scripts) {
    if (skipped.includes(name)) continue;
    const result = await execa('bash', ['-e', '-c', rewrite(run)], { cwd: folder, env, reject: false, all: true });
    results.push({ exitCode: result.exitCode, all: `${name}\n${result.all}` });
    if (result.exitCode !== 0) break;
  }
  return results;
}
