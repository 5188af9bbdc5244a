import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { parse, stringify } from 'yaml';
import { type ImageRegistry, startImageRegistry } from '../../testkit/image-registry.ts';
import { ensureDebianPackages } from '../../tools/debian.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { buildahIn } from '../../tools/release/image/buildah.ts';
import { chart, everyHelm, Helm } from './helm.ts';

const script = join(import.meta.dirname, '../../tools/release/publish-once.ts');

/** The time to build the registry and to install skopeo, if no earlier run has. */
const setUpMs = 600_000;

let folder: string;
let registry: ImageRegistry;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'publish-once-'));
  await ensureDebianPackages(['buildah', 'skopeo']);
  registry = await startImageRegistry({ folder });
}, setUpMs);
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

/** Runs the script. @param bin a folder with Helm */
async function publish([kind = '', file = '', reference = '']: readonly string[], bin = '') {
  const args = [script, kind, file, `${registry.address}/${reference}`, '--plain-http'];
  return execa(process.execPath, args, { env: { PATH: `${bin}:${process.env.PATH}` }, reject: false });
}

/** Returns the digest that the registry has for a tag. */
async function digestIn(repository: string, tag: string): Promise<string | null> {
  const accept = 'application/vnd.oci.image.manifest.v1+json,application/vnd.oci.image.index.v1+json';
  const response = await fetch(`http://${registry.address}/v2/${repository}/manifests/${tag}`, { headers: { accept } });
  await response.text();
  return response.headers.get('docker-content-digest');
}

const refused = { exitCode: 1, stdout: '', stderr: expect.stringContaining('is published with other content') };

test.each(everyHelm)('a chart is pushed once by %s, and other content of its version is refused', async (name) => {
  const bin = await mkdtemp(join(folder, 'bin-'));
  await cp((await ensureBinaries([name])).get(name) ?? '', join(bin, 'helm'));
  const copy = join(await mkdtemp(join(folder, 'chart-')), 'echoperator');
  await cp(chart, copy, { recursive: true });
  const packageWith = async (description: string): Promise<string> => {
    const content = parse(await readFile(join(copy, 'Chart.yaml'), 'utf8'));
    await writeFile(join(copy, 'Chart.yaml'), stringify({ ...content, version: '1.2.3', description }));
    return (await Helm.find(name, copy)).package(await mkdtemp(join(folder, 'package-')));
  };
  const repository = `${name}/echoperator`;
  const publishChart = (file: string) => publish(['chart', file, `${repository}:1.2.3`], bin);

  const file = await packageWith('first');
  const first = await publishChart(file);
  expect(first.stderr).toBe('');
  expect(first.stdout).toBe(await digestIn(repository, '1.2.3'));
  expect((await publishChart(file)).stdout).toBe(first.stdout);
  expect(await publishChart(await packageWith('second'))).toMatchObject(refused);
  expect(await digestIn(repository, '1.2.3')).toBe(first.stdout);
});

/** Builds an image for two platforms. @returns its OCI archive */
async function imageArchive(content: string): Promise<string> {
  const work = await mkdtemp(join(folder, 'image-'));
  await writeFile(join(work, 'content'), content);
  await writeFile(join(work, 'Dockerfile'), 'FROM scratch\nCOPY content /\n');
  const buildah = buildahIn(work, undefined);
  await buildah('build', '--platform=linux/amd64,linux/arm64', '--manifest=list', work);
  await buildah('manifest', 'push', '--all', 'list', `oci-archive:${join(work, 'image.tar')}`);
  return join(work, 'image.tar');
}

test('an image for several platforms is pushed once, and other content of its version is refused', async () => {
  const publishImage = (file: string) => publish(['image', file, 'echoperator:1.2.3']);
  const file = await imageArchive('first');
  const first = await publishImage(file);
  expect(first.stderr).toBe('');
  expect(first.stdout).toBe(await digestIn('echoperator', '1.2.3'));
  expect((await publishImage(file)).stdout).toBe(first.stdout);
  expect(await publishImage(await imageArchive('second'))).toMatchObject(refused);
  expect(await digestIn('echoperator', '1.2.3')).toBe(first.stdout);
});

test('nothing is pushed if the registry does not say whether it has the version', async () => {
  const file = await imageArchive('unknown');
  const unreachable = ['image', file, '127.0.0.1:1/echoperator:1.2.3', '--plain-http'];
  const { exitCode, stderr } = await execa(process.execPath, [script, ...unreachable], { reject: false });
  expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining('skopeo inspect') });
});
