import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { AssetsError } from '../../../tools/programs/assets.ts';
import { BuildError } from '../../../tools/programs/build-binary.ts';
import { ensureIn } from '../../../tools/programs/ensure.ts';
import { GoToolchainError } from '../../../tools/programs/go-toolchain.ts';
import { FakeWorkshop, isRunning, recordingDisplay, until } from './fake-workshop.ts';

const repository = join(import.meta.dirname, '../../..');

// Other processes are started and waited for, on a machine that may be busy.
jest.setTimeout(60_000);

let workshop: FakeWorkshop;

beforeEach(async () => {
  workshop = await FakeWorkshop.make();
});

afterEach(async () => {
  await workshop[Symbol.asyncDispose]();
});

describe('ensureIn', () => {
  it('builds what is missing, once, below the cache folder', async () => {
    const display = recordingDisplay();
    const paths = await ensureIn(workshop, ['alpha', 'one'], { display });

    expect([...paths.keys()]).toEqual(['alpha', 'one']);
    for (const path of paths.values()) expect(await readFile(path, 'utf8')).toContain('echo built');
    expect(paths.get('alpha')).toMatch(/\/cache\/echoperator\/bin\/letters-[0-9a-f]{16}\/alpha$/);
    expect(await readdir(dirname(paths.get('alpha') ?? ''))).toEqual(['alpha']);
    expect(display.lines).toEqual([
      expect.stringMatching(/^Building 2 programs into .*bin: about 2 s on two cores$/),
      '[1/2] alpha: about 1 s',
      expect.stringMatching(/^\[1\/2\] alpha: done in \d+ s$/),
      '[2/2] one: about 1 s',
      expect.stringMatching(/^\[2\/2\] one: done in \d+ s$/),
    ]);

    const silent = recordingDisplay();
    expect(await ensureIn(workshop, ['alpha', 'one'], { display: silent })).toEqual(paths);
    expect(silent.lines).toEqual([]);
    expect(await workshop.builds()).toBe(2);
  });

  it('refuses a name that is not in the catalogue', async () => {
    await expect(ensureIn(workshop, ['alpha', 'gamma'])).rejects.toThrow(new RangeError('no such program: gamma'));
  });

  it('builds a group again when it changed, and only that', async () => {
    const display = recordingDisplay();
    const before = await ensureIn(workshop, ['alpha', 'one'], { display });
    await workshop.write('tools/digits/one/main.go', 'package main');
    const after = await ensureIn(workshop, ['alpha', 'one'], { display });
    expect(after.get('alpha')).toBe(before.get('alpha'));
    expect(after.get('one')).not.toBe(before.get('one'));
    expect(await workshop.builds()).toBe(3);
  });

  it('lets a second builder wait, who says so and does not build again', async () => {
    await workshop.hold();
    const first = ensureIn(workshop, ['alpha'], { display: recordingDisplay() });
    await workshop.held();
    const display = recordingDisplay();
    const second = ensureIn(workshop, ['alpha'], { display });
    await until(() => display.lines.length > 2);
    expect(display.lines[2]).toBe(`alpha: waiting for another builder: process ${process.pid}, building alpha`);
    await workshop.release();
    expect(await second).toEqual(await first);
    expect(await workshop.builds()).toBe(1);
  });

  it('lets a builder that waits be aborted', async () => {
    await workshop.hold();
    const first = ensureIn(workshop, ['alpha'], { display: recordingDisplay() });
    await workshop.held();
    const display = recordingDisplay();
    const abort = new AbortController();
    const second = ensureIn(workshop, ['one'], { display, signal: abort.signal });
    await until(() => display.lines.length > 2);
    abort.abort();
    await expect(second).rejects.toMatchObject({ name: 'AbortError' });
    await workshop.release();
    await first;
  });

  it('leaves nothing behind when it is aborted: no program, no compiler; the next one builds', async () => {
    await workshop.hold();
    const abort = new AbortController();
    const build = ensureIn(workshop, ['alpha'], { display: recordingDisplay(), signal: abort.signal });
    const compiler = await workshop.held();
    abort.abort();
    await expect(build).rejects.toMatchObject({ name: 'AbortError' });
    await until(() => !isRunning(compiler));

    await workshop.release();
    const paths = await ensureIn(workshop, ['alpha'], { display: recordingDisplay() });
    expect(await readFile(paths.get('alpha') ?? '', 'utf8')).toContain('echo built');
    expect(await readdir(dirname(paths.get('alpha') ?? ''))).toEqual(['alpha']);
  });

  it('is not in the way of the next one when it is killed with -9, and neither is its compiler', async () => {
    await workshop.hold();
    const { binaries, programsFolder, environment } = workshop;
    const builder = spawn(
      process.execPath,
      [
        '--input-type=module',
        '--eval',
        `import { ensureIn } from ${JSON.stringify(join(repository, 'tools/programs/ensure.ts'))};
         await ensureIn(${JSON.stringify({ binaries, programsFolder, environment })}, ['alpha']);`,
      ],
      { stdio: 'ignore' },
    );
    const compiler = await workshop.held();
    builder.kill('SIGKILL');
    await once(builder, 'exit');
    await until(() => !isRunning(compiler));

    await workshop.release();
    const paths = await ensureIn(workshop, ['alpha'], { display: recordingDisplay() });
    expect(await readFile(paths.get('alpha') ?? '', 'utf8')).toContain('echo built');
    expect(await readdir(dirname(paths.get('alpha') ?? ''))).toEqual(['alpha']);
  });

  it('tells the last lines of a build that failed, and where its log is', async () => {
    const packages = Array.from({ length: 100 }, (_, index) => `example.com/package${index}`).join('\n');
    await workshop.write('fail', `${packages}\n# letters/alpha\nmain.go:3:2: undefined: greeting here\n`);
    const error = await ensureIn(workshop, ['alpha'], { display: recordingDisplay() }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(BuildError);
    const [head, ...lines] = error.message.split('\n  ');
    expect(head).toBe("can't build alpha (tools/programs/letters):");
    expect(lines.slice(0, 2)).toEqual(['# letters/alpha', 'main.go:3:2: undefined: greeting here']);
    const log = lines.at(-1).replace('The whole log: ', '');
    expect(await readFile(log, 'utf8')).toContain('example.com/package99');
  });

  it('names Go where there is none, or where it is too old', async () => {
    const environment = { ...workshop.environment, PATH: join(workshop.folder, 'empty') };
    const { binaries, programsFolder } = workshop;
    await expect(ensureIn({ binaries, programsFolder, environment }, ['alpha'])).rejects.toThrow(/no `go` on PATH/);

    await workshop.write('go-env', '{"GOVERSION":"go1.24.13","GOHOSTOS":"linux","GOHOSTARCH":"amd64"}');
    const error = await ensureIn(workshop, ['alpha']).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(GoToolchainError);
    expect(error.message).toMatch(
      /^Go 1\.26\.0 or newer is needed \(tools\/programs\/letters\/go\.mod\), and the `go` on PATH is go1\.24\.13/,
    );
  });
});

describe('KUBEBUILDER_ASSETS', () => {
  const withAssets = (folder: string) => ({
    binaries: workshop.binaries,
    programsFolder: workshop.programsFolder,
    environment: { ...workshop.environment, KUBEBUILDER_ASSETS: folder },
  });

  const addAsset = async (name: string, mode = 0o755) => {
    await workshop.write(`assets/${name}`, '#!/bin/sh\n');
    await chmod(join(workshop.folder, 'assets', name), mode);
  };

  it('gives what it holds, and the rest is built', async () => {
    await addAsset('alpha');
    const assets = join(workshop.folder, 'assets');
    const paths = await ensureIn(withAssets(assets), ['alpha', 'beta', 'one'], { display: recordingDisplay() });
    expect(paths.get('alpha')).toBe(join(assets, 'alpha'));
    expect(paths.get('beta')).toContain('/cache/');
    expect(paths.get('one')).toContain('/cache/');

    await addAsset('beta');
    expect((await ensureIn(withAssets(assets), ['beta'])).get('beta')).toBe(join(assets, 'beta'));
  });

  it.each([
    ['does not exist', undefined],
    ['holds a file that is not executable', 0o644],
  ])('is refused with its name, its value and what is missing where it %s', async (_, mode) => {
    const assets = join(workshop.folder, 'assets');
    if (mode !== undefined) await addAsset('alpha', mode);
    const error = await ensureIn(withAssets(assets), ['alpha', 'beta', 'one']).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(AssetsError);
    expect(error.message).toBe(
      `KUBEBUILDER_ASSETS is ${JSON.stringify(assets)}, a folder without alpha: point it at one that has them, or unset it to have them built.`,
    );
    expect(existsSync(join(workshop.folder, 'builds'))).toBe(false);
  });

  it('is of no concern for programs that it never holds, and counts as unset when it is empty', async () => {
    const display = recordingDisplay();
    expect((await ensureIn(withAssets('/nowhere'), ['one'], { display })).get('one')).toContain('/cache/');
    expect((await ensureIn(withAssets(''), ['alpha'], { display })).get('alpha')).toContain('/cache/');
  });
});
