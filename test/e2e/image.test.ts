import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { buildImage, type Image } from '../../tools/release/index.ts';

type ImageConfig = {
  readonly config: {
    readonly User: string;
    readonly Entrypoint: readonly string[];
    readonly Labels: Readonly<Record<string, string>>;
  };
};

let folder: string;
let image: Image;
let tags: readonly string[];
let config: ImageConfig['config'];

beforeAll(async () => {
  image = await buildImage();
  folder = await mkdtemp(join(tmpdir(), 'image-test-'));
  await mkdir(join(folder, 'root'));
  await execa('tar', ['--extract', '--file', image.archive, '--directory', folder]);
  const [manifest] = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8')) as [
    { readonly Config: string; readonly RepoTags: readonly string[]; readonly Layers: readonly string[] },
  ];
  tags = manifest.RepoTags;
  ({ config } = JSON.parse(await readFile(join(folder, manifest.Config), 'utf8')) as ImageConfig);
  for (const layer of manifest.Layers) {
    await execa('tar', ['--extract', '--file', join(folder, layer), '--directory', join(folder, 'root')]);
  }
}, 300_000);

afterAll(() => rm(folder, { recursive: true }));

const files = async (): Promise<readonly string[]> =>
  (await readdir(join(folder, 'root'), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(join(folder, 'root').length));

describe('the image', () => {
  test('has the name that the chart uses', async () => {
    const chart = await readFile(join(import.meta.dirname, '../../charts/echoperator/Chart.yaml'), 'utf8');
    const values = await readFile(join(import.meta.dirname, '../../charts/echoperator/values.yaml'), 'utf8');
    const version = /^appVersion: "(.+)"$/m.exec(chart)?.[1];
    const repository = /^ {2}repository: (.+)$/m.exec(values)?.[1];
    expect(tags).toEqual([`${repository}:${version}`]);
    expect(image.name).toBe(tags[0]);
    expect(config.Labels['org.opencontainers.image.version']).toBe(version);
  });

  test('contains only Node, its libraries, the bundle, and their licences', async () => {
    const others = (await files()).filter((file) => !/^\/app\/|^(\/usr)?\/lib(64)?\/.*\.so(\.\d+)*$/.test(file));
    expect(others.sort()).toEqual(['/usr/local/bin/node', '/usr/local/share/doc/node/LICENSE']);
    expect(await files()).toEqual(expect.arrayContaining(['/app/main.js', '/app/LICENSES.txt']));
    expect(image.bytes).toBeLessThan(180e6);
  });

  test('does not run as root', async () => {
    expect(config.User).toBe('65532:65532');
    const { stdout } = await execa(
      'chroot',
      [`--userspec=${config.User}`, join(folder, 'root'), ...config.Entrypoint, 'version'],
      { env: { PATH: process.env.PATH }, extendEnv: false },
    );
    expect(stdout).toBe(config.Labels['org.opencontainers.image.version']);
  });

  test('is built once', async () => {
    const before = await stat(image.archive);
    expect(await buildImage()).toEqual(image);
    // Another build would have put another file in its place.
    expect((await stat(image.archive)).ino).toBe(before.ino);
  });
});
