import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { ExclusiveLock } from '../../../tools/exclusive-lock.ts';

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
