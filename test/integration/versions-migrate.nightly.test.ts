import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { execa } from 'execa';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { changed, parcels, startParcels } from './environment/parcels.ts';

const count = 10_000;
const perSecond = 100;
const program = fileURLToPath(import.meta.resolve('../../packages/cli/src/main.ts'));

/** Runs the command. `onProgress` gets the number of objects that are rewritten, and what kills the command. */
async function migrate(kubeconfig: string, onProgress: (rewritten: number, kill: () => void) => void = () => {}) {
  const args = ['migrate', parcels.name, '--per-second', String(perSecond), '--settle-seconds', '0'];
  const startMs = performance.now();
  const child = execa(process.execPath, [program, ...args], { env: { KUBECONFIG: kubeconfig }, reject: false });
  for await (const line of createInterface(child.stderr)) {
    const rewritten = /, (\d+) rewritten/.exec(line)?.[1];
    if (rewritten !== undefined) onProgress(Number(rewritten), () => child.kill('SIGKILL'));
  }
  const { exitCode, signal, stderr } = await child;
  return { exitCode, signal, stderr, seconds: (performance.now() - startMs) / 1000 };
}

test(`migrates ${count} objects in two runs, of which the first is killed and the second writes only the rest`, async () => {
  const cluster = await TestCluster.connect();
  const cleanUp: (() => Promise<unknown>)[] = [];
  try {
    const { storedVersions, versions, requireStoredInV2 } = await startParcels(cluster, cleanUp, count);
    const before = await versions();
    const first = await migrate(cluster.kubeconfig, (rewritten, kill) => {
      if (rewritten > count / 2) kill();
    });
    expect(first.signal).toBe('SIGKILL');
    expect(await storedVersions()).toEqual(['v1', 'v2']);
    const half = await versions();
    const rewrittenFirst = changed(before, half);
    expect(rewrittenFirst).toBeGreaterThan(count / 2);
    expect(rewrittenFirst).toBeLessThan(count - 1);

    const second = await migrate(cluster.kubeconfig);
    expect(second).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('removed v1') });
    expect(await storedVersions()).toEqual(['v2']);
    const after = await versions();
    expect(after.size).toBe(count);
    // `startParcels` has rewritten one.
    expect(changed(half, after)).toBe(count - 1 - rewrittenFirst);
    // The throttle holds.
    expect(first.seconds + second.seconds).toBeGreaterThan((0.95 * count) / perSecond);
    await requireStoredInV2();
    console.log(
      `${count} objects at ${perSecond} a second: killed after ${Math.round(first.seconds)} s and ${rewrittenFirst} ` +
        `rewritten; then ${count} requests in ${Math.round(second.seconds)} s, of which ${changed(half, after)} rewrote`,
    );
  } finally {
    for (const undo of cleanUp.reverse()) await undo();
    await cluster.close();
  }
}, 900_000);
