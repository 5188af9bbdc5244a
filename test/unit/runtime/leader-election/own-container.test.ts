import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { firstProcessStartedAtMs } from '../../../../src/runtime/leader-election/first-process.ts';
import { readHolderContainer, writeHolderContainer } from '../../../../src/runtime/leader-election/holder-container.ts';
import { TerminationLog } from '../../../../src/runtime/leader-election/termination-log.ts';
import { testOnLinux } from '../../../../testkit/on-linux.ts';

testOnLinux('the first process was made before this one, and the kernel knows when', async () => {
  const startedAtMs = firstProcessStartedAtMs();
  expect(startedAtMs).toBeLessThanOrEqual(performance.timeOrigin + 10);
  const bootedAtMs = Number(/^btime (\d+)$/m.exec(await readFile('/proc/stat', 'utf8'))?.[1]) * 1000;
  // btime has whole seconds.
  expect(startedAtMs).toBeGreaterThan(bootedAtMs - 1000);
});

describe('a termination log', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'termination-log-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test('keeps what is in it when a line is added', async () => {
    const path = join(folder, 'log');
    await writeFile(path, 'an earlier line\n');
    const log = new TerminationLog(path);
    await log.add('one');
    await log.add('two');
    expect(await readFile(path, 'utf8')).toBe('an earlier line\none\ntwo\n');
    expect(await log.holds('two')).toBe(true);
    expect(await log.holds('three')).toBe(false);
  });

  test('that the kubelet has not made is not made here', async () => {
    await expect(new TerminationLog(join(folder, 'log')).add('one')).rejects.toThrow('ENOENT');
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('what a holder says of its container', () => {
  const container = {
    namespace: 'ops',
    podName: 'operator-0',
    podUid: 'uid-1',
    containerName: 'operator',
    containerId: 'containerd://1',
    terminationToken: 'token-1',
  };

  test('is read as it was written', () => {
    expect(readHolderContainer(writeHolderContainer({}, 'me', container), 'me')).toEqual(container);
  });

  test.each(Object.keys(container))('says nothing where %s is missing, empty or no text', (field) => {
    for (const value of [undefined, '', 7, {}]) {
      const annotations = writeHolderContainer({}, 'me', { ...container, [field]: value });
      expect(readHolderContainer(annotations, 'me')).toBeUndefined();
    }
  });

  test.each(['null', '7', '"text"', '{', '[]'])('says nothing as %s', (text) => {
    const [annotation = ''] = Object.keys(writeHolderContainer({}, 'me', container));
    expect(readHolderContainer({ [annotation]: text }, 'me')).toBeUndefined();
  });
});
