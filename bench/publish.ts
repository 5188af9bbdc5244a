import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { benchmarkPage, besidePage } from './benchmark-page.ts';
import type { Results } from './results.ts';

/** Writes benchmark.md into the folder and its plots into a subfolder. Removes the plots of an earlier page. */
export async function writePage(results: Results, folder: string): Promise<void> {
  const { markdown, plots } = benchmarkPage(results);
  const beside = join(folder, besidePage);
  await mkdir(beside, { recursive: true });
  for (const file of await readdir(beside)) {
    if (file.endsWith('.svg') && !plots.has(file)) await rm(join(beside, file));
  }
  for (const [file, plot] of plots) await writeFile(join(beside, file), plot);
  await writeFile(join(folder, 'benchmark.md'), markdown);
}
