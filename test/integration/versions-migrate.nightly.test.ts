import { expect, test } from '@jest/globals';
import { migrateStoredObjects } from '../../packages/cli/src/migrate/migrate-stored-objects.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { parcels, startParcels } from './environment/parcels.ts';

const count = 10_000;
const perSecond = 100;

test(`migrates ${count} objects in two runs, of which the second writes only the rest`, async () => {
  const cluster = await TestCluster.connect();
  const cleanUp: (() => Promise<unknown>)[] = [];
  try {
    const { storedVersions, versions, requireStoredInV2 } = await startParcels(cluster, cleanUp, count);
    const reports: string[] = [];
    const options = { perSecond, settleMs: 0, report: (line: string) => reports.push(line) };
    // Interrupted halfway.
    const interrupted = new AbortController();
    const untilHalf = (line: string) => {
      if (Number(/, (\d+) rewritten/.exec(line)?.[1]) > count / 2) interrupted.abort(new Error('interrupted'));
    };
    const startMs = performance.now();
    await expect(
      migrateStoredObjects(cluster.client, parcels.name, { ...options, report: untilHalf, signal: interrupted.signal }),
    ).rejects.toThrow('interrupted');
    const resumedMs = performance.now();
    const half = await versions();
    await migrateStoredObjects(cluster.client, parcels.name, options);
    const endMs = performance.now();
    expect(await storedVersions()).toEqual(['v2']);
    const after = await versions();
    const rewritten = [...half].filter(([name, version]) => after.get(name) !== version).length;
    expect(after.size).toBe(count);
    expect(rewritten).toBeGreaterThan(0);
    expect(rewritten).toBeLessThan(count / 2);
    // The throttle holds.
    expect(endMs - startMs).toBeGreaterThan((0.95 * count * 1000) / perSecond);
    await requireStoredInV2();
    const seconds = (fromMs: number, toMs: number) => Math.round((toMs - fromMs) / 1000);
    console.log(
      `${count} objects at ${perSecond} a second: ${seconds(startMs, resumedMs)} s until the interruption, then ` +
        `${seconds(resumedMs, endMs)} s, of which ${rewritten} were rewritten`,
    );
  } finally {
    for (const undo of cleanUp.reverse()) await undo();
    await cluster.close();
  }
}, 900_000);
