import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { type Binary, catalogue } from '../../../tools/programs/catalogue.ts';
import type { GoToolchain } from '../../../tools/programs/go-toolchain.ts';
import { readGroup } from '../../../tools/programs/group.ts';
import { FakeWorkshop } from './fake-workshop.ts';

const go: GoToolchain = { version: 'go1.26.8', os: 'linux', architecture: 'amd64' };

let workshop: FakeWorkshop;

beforeEach(async () => {
  workshop = await FakeWorkshop.make();
});

afterEach(async () => {
  await workshop[Symbol.asyncDispose]();
});

const keyOf = async (toolchain = go, binaries: readonly Binary[] = workshop.binaries) =>
  (await readGroup('letters', workshop.programsFolder, binaries, toolchain)).key;

it('is the same for the same', async () => {
  expect(await keyOf()).toBe(await keyOf());
});

it.each([
  ['go.mod', 'tools/letters/go.mod', 'module letters\n\ngo 1.26.1\n'],
  ['go.sum', 'tools/letters/go.sum', 'example.com/a v1.0.0 h1:x=\n'],
  ['a source', 'tools/letters/main.go', 'package main'],
  ['a source in a folder', 'tools/letters/alpha/main.go', 'package main'],
])('changes with %s', async (_, path, text) => {
  const before = await keyOf();
  await workshop.write(path, text);
  expect(await keyOf()).not.toBe(before);
});

it.each([
  ['Go', { ...go, version: 'go1.26.9' }],
  ['the system', { ...go, os: 'darwin' }],
  ['the architecture', { ...go, architecture: 'arm64' }],
])('changes with %s', async (_, toolchain) => {
  expect(await keyOf(toolchain)).not.toBe(await keyOf());
});

it('changes with the flags of its programs', async () => {
  const before = await keyOf();
  const withAlpha = (change: Partial<Binary>) =>
    workshop.binaries.map((binary) => (binary.name === 'alpha' ? { ...binary, ...change } : binary));
  expect(await keyOf(go, withAlpha({ stamp: () => ({ 'main.version': '2' }) }))).not.toBe(before);
  expect(await keyOf(go, withAlpha({ tags: ['small'] }))).not.toBe(before);
});

it('does not change with what nothing is built from', async () => {
  const before = await keyOf();
  await workshop.write('tools/letters/README.md', 'letters');
  await workshop.write('tools/digits/main.go', 'package main');
  const slower = workshop.binaries.map((binary) => ({ ...binary, seconds: 99 }));
  const withoutDigits = slower.filter(({ group }) => group !== 'digits');
  expect(await keyOf(go, withoutDigits)).toBe(before);
});

it.each([
  ['go1.26.0', true],
  ['go1.27rc1', true],
  ['devel +abc', true],
  ['go1.25.9', false],
  ['go1.9', false],
])('takes %s for Go 1.26.0 or newer: %s', async (version, enough) => {
  const read = keyOf({ ...go, version });
  await (enough ? expect(read).resolves.toBeDefined() : expect(read).rejects.toThrow('Go 1.26.0 or newer is needed'));
});

it('stamps the versions that go.mod pins', async () => {
  const tools = new URL('../../../tools/programs', import.meta.url).pathname;
  const flagsOf = async (name: string) => {
    const binary: Binary = catalogue.find((one) => one.name === name)!;
    return (await readGroup(binary.group, tools, catalogue, go)).buildArguments(binary).join(' ');
  };
  expect(await flagsOf('kubectl')).toMatch(
    /-X k8s\.io\/component-base\/version\.gitVersion=v1\.36\.\d+ -X k8s\.io\/component-base\/version\.gitMajor=1 -X k8s\.io\/component-base\/version\.gitMinor=36 k8s/,
  );
  expect(await flagsOf('helm')).toMatch(/version\.version=v3\.\d+\.\d+ .*chartutil\.k8sVersionMinor=\d+ /);
  expect(await flagsOf('helm4')).toMatch(/version\.version=v4\.\d+\.\d+ helm/);
});

it('says which module a go.mod lacks', async () => {
  const binary: Binary = { name: 'alpha', group: 'letters', package: '.', seconds: 1 };
  const stamped = { ...binary, stamp: (versionOf: (module: string) => string) => ({ v: versionOf('example.com/a') }) };
  await expect(readGroup('letters', workshop.programsFolder, [stamped], go)).rejects.toThrow(
    'tools/programs/letters/go.mod does not require example.com/a',
  );
});
