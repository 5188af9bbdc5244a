import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ExclusiveLock, runOnce, withExclusiveLock } from '../../../tools/exclusive-lock.ts';

// The tests wait for other processes, on a machine that may be busy.
jest.setTimeout(60_000);

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lock-'));
  file = join(folder, 'lock');
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

it('has one holder at a time and describes it', () => {
  {
    using first = ExclusiveLock.tryAcquire(file, 'counting');
    expect(first).toBeDefined();
    expect(ExclusiveLock.tryAcquire(file, 'counting too')).toBeUndefined();
    expect(ExclusiveLock.lastHolder(file)).toBe(`process ${process.pid}, counting`);
  }
  using second = ExclusiveLock.tryAcquire(file, 'counting too');
  expect(second).toBeDefined();
  expect(ExclusiveLock.lastHolder(file)).toBe(`process ${process.pid}, counting too`);
});

it('excludes other processes, and is released when its holder is killed with SIGKILL', async () => {
  const source = new URL('../../../tools/exclusive-lock.ts', import.meta.url).href;
  const holder = spawn(
    process.execPath,
    [
      '--input-type=module',
      '--eval',
      `import { ExclusiveLock } from ${JSON.stringify(source)};
       globalThis.lock = ExclusiveLock.tryAcquire(${JSON.stringify(file)}, 'holding');
       console.log('held');
       setInterval(() => undefined, 1000);`,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  await once(holder.stdout, 'data');
  expect(ExclusiveLock.tryAcquire(file, 'waiting')).toBeUndefined();
  expect(ExclusiveLock.lastHolder(file)).toBe(`process ${holder.pid}, holding`);
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  using lock = ExclusiveLock.tryAcquire(file, 'waiting');
  expect(lock).toBeDefined();
});

it('throws for a file that cannot be locked, unlike for a lock that is held', () => {
  expect(() => ExclusiveLock.tryAcquire(join(folder, 'missing', 'lock'), 'trying')).toThrow(/unable to open|missing/);
  expect(ExclusiveLock.lastHolder(join(folder, 'other'))).toBe('another process');
});

describe('withExclusiveLock', () => {
  it('runs one action at a time and leaves no file', async () => {
    let running = 0;
    const lockFile = join(folder, 'new', 'lock');
    const onWait = jest.fn();
    const action = async () => {
      running += 1;
      expect(running).toBe(1);
      await delay(10);
      running -= 1;
    };
    const run = (purpose: string) => withExclusiveLock({ lockFile, purpose, onWait }, action);
    await Promise.all([run('a'), run('b'), run('c')]);
    // Any of them may be first.
    expect(onWait).toHaveBeenCalled();
    for (const [holder] of onWait.mock.calls) expect(holder).toMatch(new RegExp(`^process ${process.pid}, [abc]$`));
    expect(await readdir(join(folder, 'new'))).toEqual([]);
  });

  it('releases the lock if the action fails', async () => {
    const options = { lockFile: file, purpose: 'failing' };
    await expect(withExclusiveLock(options, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await withExclusiveLock(options, async () => 'done')).toBe('done');
  });
});

describe('runOnce', () => {
  it('runs the action once for concurrent callers', async () => {
    let runs = 0;
    const isDone = async () => runs > 0;
    const run = () =>
      runOnce({ lockFile: file, purpose: 'running', isDone, onWait: () => {} }, async () => {
        await delay(10);
        runs += 1;
      });
    await Promise.all([run(), run(), run()]);
    expect(runs).toBe(1);
  });

  it('returns when the action is done, also while another process still holds the lock', async () => {
    using _lock = ExclusiveLock.tryAcquire(file, 'other work');
    let isDone = false;
    const options = { lockFile: file, purpose: 'waiting', isDone: async () => isDone };
    const onWait = () => {
      isDone = true;
    };
    await runOnce({ ...options, onWait }, () => Promise.reject(new Error('must not run')));
  });

  it('does not touch the lock if the action is done', async () => {
    await runOnce({ lockFile: file, purpose: 'nothing', isDone: async () => true }, () => Promise.reject(new Error()));
    expect(existsSync(file)).toBe(false);
  });

  it('stops waiting when aborted', async () => {
    using _lock = ExclusiveLock.tryAcquire(file, 'holding');
    const abort = new AbortController();
    const options = { lockFile: file, purpose: 'waiting', isDone: async () => false, signal: abort.signal };
    const run = runOnce({ ...options, onWait: () => abort.abort() }, async () => {});
    await expect(run).rejects.toMatchObject({ name: 'AbortError' });
  });
});
