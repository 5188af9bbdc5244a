import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { execa } from 'execa';

const root = join(import.meta.dirname, '../../..');

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'programs-'));
  await mkdir(join(folder, 'assets'));
  for (const name of ['etcd', 'kube-apiserver']) {
    await writeFile(join(folder, 'assets', name), '#!/bin/sh\n');
    await chmod(join(folder, 'assets', name), 0o755);
  }
});
afterEach(() => rm(folder, { recursive: true }));

const run = (...args: readonly string[]) =>
  execa(process.execPath, [join(root, 'tools/programs/main.ts'), ...args], {
    // So that nothing is built.
    env: { KUBEBUILDER_ASSETS: join(folder, 'assets'), XDG_CACHE_HOME: join(folder, 'cache') },
    reject: false,
  });

test('prints the paths of the programs, and the command with which tests of an operator find them', async () => {
  const { stdout, exitCode } = await run('etcd,kube-apiserver');
  const [etcd, apiServer, command = ''] = stdout.split('\n');
  expect([etcd, apiServer]).toEqual([
    `etcd            ${join(folder, 'assets/etcd')}`,
    `kube-apiserver  ${join(folder, 'assets/kube-apiserver')}`,
  ]);
  expect(command).toMatch(/^export KUBEBUILDER_ASSETS=\S+$/);
  expect((await readdir(command.replace(/^.*=/, ''))).sort()).toEqual(['etcd', 'kube-apiserver']);
  expect(exitCode).toBe(0);
});

test('prints no such command for other programs', async () => {
  const { stdout } = await run('etcd');
  expect(stdout).toBe(`etcd  ${join(folder, 'assets/etcd')}`);
});

test('names an unknown program of a list', async () => {
  const { stderr, exitCode } = await run('etcd,kubelex');
  expect(stderr).toMatch(/^unknown programs: kubelex\. The programs are etcd, kube-apiserver, /);
  expect(exitCode).toBe(2);
});

test('make passes on which programs it is asked for', async () => {
  const { stdout } = await execa('make', ['--dry-run', 'binaries', 'ONLY=etcd,kube-apiserver'], {
    cwd: root,
    // A make inside `make test` prints which folder it enters and leaves.
    env: { MAKELEVEL: '0', MAKEFLAGS: '' },
  });
  expect(stdout.split('\n').at(-1)).toBe('node tools/programs/main.ts etcd,kube-apiserver');
});
