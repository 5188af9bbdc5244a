import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ageOf, UnknownAgeError } from './age.ts';
import { benchmarkPage, besidePage } from './benchmark-page.ts';
import { type Results, writeResults } from './results.ts';

/**
 * Writes benchmark.md into the folder, and its plots and bench.json into a subfolder, with their age. Removes the plots
 * of an earlier page.
 */
export async function publish(measured: Results, folder: string): Promise<void> {
  const { age: _, ...rest } = measured;
  const age = await ageOf(measured).catch((error: unknown) => {
    if (error instanceof UnknownAgeError) return undefined;
    throw error;
  });
  const results: Results = age === undefined ? rest : { ...rest, age };
  const { markdown, plots } = benchmarkPage(results);
  const beside = join(folder, besidePage);
  await mkdir(beside, { recursive: true });
  for (const file of await readdir(beside)) {
    if (file.endsWith('.svg') && !plots.has(file)) await rm(join(beside, file));
  }
  for (const [file, plot] of plots) await writeFile(join(beside, file), plot);
  await writeFile(join(folder, 'benchmark.md'), markdown);
  await writeResults(results, beside);
}
