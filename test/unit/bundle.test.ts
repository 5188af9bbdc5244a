import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { bundle, HeavyStartError } from '../../tools/release/bundle.ts';

const undici = join(import.meta.dirname, '../../node_modules/undici/lib');
const clientNode = join(import.meta.dirname, '../../node_modules/@kubernetes/client-node/dist/index.js');

/** Contains all files of these tests. */
let parent: string;
/** The operator's bundle, built over an earlier bundle with one more file. */
let folder: string;
let lazyBytes: number;

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'bundle-test-'));
  folder = join(parent, 'operator');
  await mkdir(join(folder, 'chunks'), { recursive: true });
  await writeFile(join(folder, 'chunks', 'former.js'), '');
  ({ lazyBytes } = await bundle({ folder }));
}, 60_000);
afterAll(() => rm(parent, { recursive: true }));

describe('the bundle', () => {
  test('runs without other files and knows its version', async () => {
    const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string };
    const { stdout } = await execa(process.execPath, [join(folder, 'main.js'), 'version'], {
      cwd: '/',
      env: {},
      extendEnv: false,
    });
    expect(stdout).toBe(version);
  }, 60_000);

  test('contains the licences of its packages, and no file of an earlier bundle', async () => {
    expect(await readdir(join(folder, 'chunks'))).not.toContain('former.js');
    const licenses = await readFile(join(folder, 'LICENSES.txt'), 'utf8');
    for (const name of ['undici', 'pino', 'prom-client', 'envalid'])
      expect(licenses).toMatch(new RegExp(`^${name} \\d`, 'm'));
    expect(licenses).not.toMatch(/^(jest|typescript|esbuild) \d/m);
  }, 60_000);

  test('contains the manifest of each of its packages, in which scanners look for known vulnerabilities', async () => {
    const licenses = await readFile(join(folder, 'LICENSES.txt'), 'utf8');
    const named = [...licenses.matchAll(/^-{80}\n\n(\S+) (\S+) \(/gm)].map(([, name, version]) => `${name}@${version}`);
    expect(named.length).toBeGreaterThan(20);
    const paths = (await readdir(join(folder, 'packages'), { recursive: true })).filter((path) =>
      path.endsWith('package.json'),
    );
    const manifests = await Promise.all(
      paths.map(async (path) => JSON.parse(await readFile(join(folder, 'packages', path), 'utf8'))),
    );
    expect(manifests.map(({ name, version }) => `${name}@${version}`).sort()).toEqual(named.sort());
    for (const manifest of manifests) expect(Object.keys(manifest)).toEqual(['name', 'version', 'license']);
  }, 60_000);

  test('is rejected if it would load the generated API at every start', async () => {
    const entry = join(parent, 'entry.ts');
    await writeFile(entry, `import { KubeConfig } from '${clientNode}';\nconsole.log(new KubeConfig());\n`);
    const refused = bundle({ folder: join(parent, 'out'), entry });
    await expect(refused).rejects.toThrow(HeavyStartError);
    await expect(refused).rejects.toThrow(/entry\.ts on demand/);
  }, 60_000);

  test('may load the generated API on demand', async () => {
    const entry = join(parent, 'entry.ts');
    await writeFile(entry, `const { KubeConfig } = await import('${clientNode}');\nconsole.log(new KubeConfig());\n`);
    const { startBytes, lazyBytes } = await bundle({ folder: join(parent, 'out'), entry });
    expect(startBytes).toBeLessThan(10_000);
    expect(lazyBytes).toBeGreaterThan(100_000);
  }, 60_000);

  test('imports no built-in module of Node, because an import loads more than needed', async () => {
    const chunks = (await readdir(join(folder, 'chunks'))).filter((name) => name.endsWith('.js'));
    for (const script of ['main.js', ...chunks.map((name) => join('chunks', name))]) {
      const text = await readFile(join(folder, script), 'utf8');
      const imported = [...text.matchAll(/\b(?:from|import)\s*"([\w:./@-]+)"/g)].map(([, specifier]) => specifier);
      expect(imported.filter((specifier) => !specifier?.startsWith('./'))).toEqual([]);
    }
  }, 60_000);

  test('contains the parts of undici that a client of the API server runs', async () => {
    const scripts = [join(folder, 'main.js')];
    for (const name of await readdir(join(folder, 'chunks'))) scripts.push(join(folder, 'chunks', name));
    const text = (await Promise.all(scripts.map((script) => readFile(script, 'utf8')))).join('\n');
    const parser = await readFile(join(undici, 'llhttp/llhttp_simd-wasm.js'), 'utf8');
    const [wasm = ''] = /[A-Za-z0-9+/=]{10000,}/.exec(parser) ?? [];
    expect(text.includes(wasm) && wasm !== '').toBe(true);
    expect(text).toContain('InvalidArgumentError("invalid callback")');
    expect(text).not.toContain('MockAgent');
  }, 60_000);

  test('omits unused parts of the generated API', async () => {
    expect(lazyBytes).toBeGreaterThan(100_000);
    // The authentication methods and the client of the pet store.
    expect(lazyBytes).toBeLessThan(800_000);
  }, 60_000);
});
