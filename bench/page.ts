/**
 * Renders the benchmark's page from saved results:
 *
 *     node bench/page.ts              docs/benchmark.md from docs/benchmark/bench.json
 *     node bench/page.ts dist/bench   the same for the last short run
 */
import { join } from 'node:path';
import { besidePage } from './benchmark-page.ts';
import { publish } from './publish.ts';
import { readResults } from './results.ts';

const folder = process.argv[2] ?? join(import.meta.dirname, '../docs');
await publish(await readResults(join(folder, besidePage)), folder);
