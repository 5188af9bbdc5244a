import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, utimes } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ensureBinariesIn, type ProgramSource } from '../../../tools/programs/build.ts';
import { type Binary, catalogue } from '../../../tools/programs/catalogue.ts';
import { BuildError } from '../../../tools/programs/go.ts';
import { FakeProgramSource, isRunning, recordingDisplay, until } from './fake-program-source.ts';

const repository = join(import.meta.dirname, '../../..');

// The tests wait for other processes, on a machine that may be busy.
jest.setTimeout(60_000);

let source: FakeProgramSource;

beforeEach(async () => {
  source = await FakeProgramSource.make();
});

afterEach(async () => {
  await source[Symbol.asyncDispose]();
});

describe('ensureBinariesIn', () => {
  it('builds each missing program once, in the cache folder', async () => {
    const display = recordingDisplay();
    const paths = await ensureBinariesIn(source, ['alpha', 'one'], { display });

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
    expect(await ensureBinariesIn(source, ['alpha', 'one'], { display: silent })).toEqual(paths);
    expect(silent.lines).toEqual([]);
    expect(await source.builds()).toBe(2);
  });

  it('rejects a name that is not in the catalogue', async () => {
    await expect(ensureBinariesIn(source, ['alpha', 'gamma'])).rejects.toThrow(
      new RangeError('no such program: gamma'),
    );
  });

  it('rebuilds only a group that has changed', async () => {
    const display = recordingDisplay();
    const before = await ensureBinariesIn(source, ['alpha', 'one'], { display });
    await source.write('programs/digits/one/main.go', 'package main');
    const after = await ensureBinariesIn(source, ['alpha', 'one'], { display });
    expect(after.get('alpha')).toBe(before.get('alpha'));
    expect(after.get('one')).not.toBe(before.get('one'));
    expect(await source.builds()).toBe(3);
  });

  it('makes a second builder wait, which reports it and does not build again', async () => {
    await source.hold();
    const first = ensureBinariesIn(source, ['alpha'], { display: recordingDisplay() });
    await source.held();
    const display = recordingDisplay();
    const second = ensureBinariesIn(source, ['alpha'], { display });
    await until(() => display.lines.length > 2);
    expect(display.lines[2]).toBe(`alpha: waiting for another builder: process ${process.pid}, building alpha`);
    await source.release();
    expect(await second).toEqual(await first);
    expect(await source.builds()).toBe(1);
  });

  it('aborts a builder that waits', async () => {
    await source.hold();
    const first = ensureBinariesIn(source, ['alpha'], { display: recordingDisplay() });
    await source.held();
    const display = recordingDisplay();
    const abort = new AbortController();
    const second = ensureBinariesIn(source, ['one'], { display, signal: abort.signal });
    await until(() => display.lines.length > 2);
    abort.abort();
    await expect(second).rejects.toMatchObject({ name: 'AbortError' });
    await source.release();
    await first;
  });

  it('leaves no program and no compiler when aborted, and the next builder builds', async () => {
    await source.hold();
    const abort = new AbortController();
    const build = ensureBinariesIn(source, ['alpha'], { display: recordingDisplay(), signal: abort.signal });
    const compiler = await source.held();
    abort.abort();
    await expect(build).rejects.toMatchObject({ name: 'AbortError' });
    await until(() => !isRunning(compiler));

    await source.release();
    const paths = await ensureBinariesIn(source, ['alpha'], { display: recordingDisplay() });
    expect(await readFile(paths.get('alpha') ?? '', 'utf8')).toContain('echo built');
    expect(await readdir(dirname(paths.get('alpha') ?? ''))).toEqual(['alpha']);
  });

  it('leaves no lock and no compiler when killed with SIGKILL', async () => {
    await source.hold();
    const { binaries, folder, environment } = source;
    const builder = spawn(
      process.execPath,
      [
        '--input-type=module',
        '--eval',
        `import { ensureBinariesIn } from ${JSON.stringify(join(repository, 'tools/programs/build.ts'))};
         await ensureBinariesIn(${JSON.stringify({ binaries, folder, environment })}, ['alpha']);`,
      ],
      { stdio: 'ignore' },
    );
    const compiler = await source.held();
    builder.kill('SIGKILL');
    await once(builder, 'exit');
    await until(() => !isRunning(compiler));

    await source.release();
    const paths = await ensureBinariesIn(source, ['alpha'], { display: recordingDisplay() });
    expect(await readFile(paths.get('alpha') ?? '', 'utf8')).toContain('echo built');
    expect(await readdir(dirname(paths.get('alpha') ?? ''))).toEqual(['alpha']);
  });

  it('fails with the last lines of a failed build', async () => {
    const packages = Array.from({ length: 100 }, (_, index) => `example.com/package${index}`).join('\n');
    await source.write('fail', `${packages}\n# letters/alpha\nmain.go:3:2: undefined: greeting here\n`);
    const build = ensureBinariesIn(source, ['alpha'], { display: recordingDisplay() });
    await expect(build).rejects.toMatchObject({
      name: 'BuildError',
      message: `cannot build alpha in ${join(source.folder, 'letters')}:\n  # letters/alpha\n  main.go:3:2: undefined: greeting here`,
    });
  });

  it('fails with a hint if Go is missing', async () => {
    const environment = { ...source.environment, PATH: join(source.root, 'empty') };
    const { binaries, folder } = source;
    await expect(ensureBinariesIn({ binaries, folder, environment }, ['alpha'])).rejects.toThrow(/no `go` on PATH/);
  });

  it('removes only programs that were not used for 90 days', async () => {
    const cache = join(source.root, 'cache/echoperator/bin');
    const dayMs = 24 * 60 * 60 * 1000;
    for (const [name, days] of Object.entries({
      'letters-0123456789abcdef': 91,
      'letters-fedcba9876543210': 89,
      'somebody-elses': 400,
    })) {
      await mkdir(join(cache, name), { recursive: true });
      const used = new Date(Date.now() - days * dayMs);
      await utimes(join(cache, name), used, used);
    }
    const path = (await ensureBinariesIn(source, ['alpha'], { display: recordingDisplay() })).get('alpha') ?? '';
    const left = ['letters-fedcba9876543210', 'somebody-elses', basename(dirname(path))];
    expect((await readdir(cache)).filter((name) => !name.startsWith('.')).sort()).toEqual(left.sort());
  });
});

describe('the place of a program in the cache', () => {
  const placeOf = async (change: Partial<ProgramSource> = {}): Promise<string | undefined> => {
    const { binaries, folder, environment } = source;
    const changed = { binaries, folder, environment, ...change };
    return (await ensureBinariesIn(changed, ['alpha'], { display: recordingDisplay() })).get('alpha');
  };

  it.each([
    ['go.mod', 'programs/letters/go.mod', 'module letters\n\ngo 1.26.1\n'],
    ['go.sum', 'programs/letters/go.sum', 'example.com/a v1.0.0 h1:x=\n'],
    ['a source', 'programs/letters/main.go', 'package main'],
    ['a source in a folder', 'programs/letters/alpha/main.go', 'package main'],
    ["Go's version", 'go-env', 'go1.26.9\nlinux\namd64\n'],
    ["Go's system", 'go-env', 'go1.26.8\ndarwin\namd64\n'],
    ["Go's architecture", 'go-env', 'go1.26.8\nlinux\narm64\n'],
  ])('changes with %s', async (_, path, text) => {
    const before = await placeOf();
    await source.write(path, text);
    expect(await placeOf()).not.toBe(before);
  });

  it('changes with the flags of the programs of its group', async () => {
    const before = await placeOf();
    const withBeta = (change: Partial<Binary>) => ({
      binaries: source.binaries.map((binary) => (binary.name === 'beta' ? { ...binary, ...change } : binary)),
    });
    expect(await placeOf(withBeta({ stamp: () => ({ 'main.version': '2' }) }))).not.toBe(before);
    expect(await placeOf(withBeta({ tags: ['small'] }))).not.toBe(before);
  });

  it('does not change with files and programs that it is not built from', async () => {
    const before = await placeOf();
    await source.write('programs/letters/README.md', 'letters');
    await source.write('programs/digits/main.go', 'package main');
    const slower = source.binaries.map((binary) => ({ ...binary, seconds: 99 }));
    expect(await placeOf({ binaries: slower.filter(({ group }) => group !== 'digits') })).toBe(before);
  });
});

describe('the version that a program has of itself', () => {
  it.each([
    [
      'kubectl',
      /-X k8s\.io\/component-base\/version\.gitVersion=v1\.36\.\d+ -X .*version\.gitMajor=1 .*gitMinor=36 k8s/,
    ],
    ['helm', /version\.version=v3\.\d+\.\d+ .*chartutil\.k8sVersionMinor=\d+ /],
    ['helm4', /version\.version=v4\.\d+\.\d+ helm/],
  ])('is what the go.mod pins: %s', async (name, flags) => {
    const { binaries, environment } = { binaries: catalogue, environment: source.environment };
    await ensureBinariesIn({ binaries, folder: join(repository, 'tools/programs'), environment }, [name], {
      display: recordingDisplay(),
    });
    expect(await readFile(join(source.root, 'arguments'), 'utf8')).toMatch(flags);
  });

  it('is refused where the go.mod does not require its module', async () => {
    const stamp = (versionOf: (module: string) => string) => ({ v: versionOf('example.com/a') });
    const binaries = source.binaries.map((binary) => ({ ...binary, stamp }));
    const build = ensureBinariesIn({ binaries, folder: source.folder, environment: source.environment }, ['alpha']);
    await expect(build).rejects.toThrow('the go.mod of alpha does not require example.com/a');
  });
});

describe('KUBEBUILDER_ASSETS', () => {
  const withAssets = (folder: string) => ({
    binaries: source.binaries,
    folder: source.folder,
    environment: { ...source.environment, KUBEBUILDER_ASSETS: folder },
  });

  const addAsset = async (name: string, mode = 0o755) => {
    await source.write(`assets/${name}`, '#!/bin/sh\n');
    await chmod(join(source.root, 'assets', name), mode);
  };

  it('gives what it holds, and the rest is built', async () => {
    await addAsset('alpha');
    const assets = join(source.root, 'assets');
    const paths = await ensureBinariesIn(withAssets(assets), ['alpha', 'beta', 'one'], { display: recordingDisplay() });
    expect(paths.get('alpha')).toBe(join(assets, 'alpha'));
    expect(paths.get('beta')).toContain('/cache/');
    expect(paths.get('one')).toContain('/cache/');

    await addAsset('beta');
    expect((await ensureBinariesIn(withAssets(assets), ['beta'])).get('beta')).toBe(join(assets, 'beta'));
  });

  it.each([
    ['does not exist', undefined],
    ['holds a file that is not executable', 0o644],
  ])('is refused with its name, its value and what is missing where it %s', async (_, mode) => {
    const assets = join(source.root, 'assets');
    if (mode !== undefined) await addAsset('alpha', mode);
    await expect(ensureBinariesIn(withAssets(assets), ['alpha', 'beta', 'one'])).rejects.toThrow(
      new BuildError(
        `KUBEBUILDER_ASSETS is ${JSON.stringify(assets)}, which has no executable alpha: set it to a folder with it, or unset it to build the program.`,
      ),
    );
    expect(existsSync(join(source.root, 'builds'))).toBe(false);
  });

  it('is of no concern for programs that it never holds, and counts as unset when it is empty', async () => {
    const display = recordingDisplay();
    expect((await ensureBinariesIn(withAssets('/nowhere'), ['one'], { display })).get('one')).toContain('/cache/');
    expect((await ensureBinariesIn(withAssets(''), ['alpha'], { display })).get('alpha')).toContain('/cache/');
  });
});
