import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { TerminationMessageFile } from '../../../../../packages/runtime/src/leader-election/crash-detection/crash-detector.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'termination-message-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('a termination message file', () => {
  test('keeps its text when a line is appended', async () => {
    const path = join(folder, 'message');
    await writeFile(path, 'an earlier line\n');
    const file = new TerminationMessageFile(path);
    await file.appendLine('one');
    await file.appendLine('two');
    expect(await readFile(path, 'utf8')).toBe('an earlier line\none\ntwo\n');
    expect(await file.includes('two')).toBe(true);
    expect(await file.includes('three')).toBe(false);
  });

  test('is not created if the kubelet has not created it', async () => {
    await expect(new TerminationMessageFile(join(folder, 'message')).appendLine('one')).rejects.toThrow('ENOENT');
    expect(await readdir(folder)).toEqual([]);
  });
});
