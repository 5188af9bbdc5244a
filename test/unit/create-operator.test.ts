import { existsSync, globSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { createOperator } from '../../packages/create-operator/src/create-operator.ts';
import { importedNames, namesOf, replacements } from '../../packages/create-operator/src/names.ts';
import { runCommand } from '../../packages/create-operator/src/run-command.ts';

const template = join(import.meta.dirname, '../../packages/create-operator/template');

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'create-operator-'));
});
afterEach(() => rm(folder, { recursive: true }));

describe('names', () => {
  test('have defaults', () => {
    expect(namesOf('my-operator', {})).toEqual({
      operator: 'my-operator',
      kind: 'Greeting',
      group: 'example.com',
      plural: 'greetings',
    });
  });

  test.each([
    ['Greeting', 'greetings'],
    ['Proxy1', 'proxy1s'],
    ['Policy', 'policies'],
    ['Gateway', 'gateways'],
    ['VirtualClass', 'virtualclasses'],
    ['Box', 'boxes'],
    ['Batch', 'batches'],
  ])('the plural of %s is %s', (kind, plural) => {
    expect(namesOf('my-operator', { kind }).plural).toBe(plural);
  });

  test.each([
    ['WebSite', 'webSite', 'web-site', 'website'],
    ['HTTPRoute', 'httpRoute', 'http-route', 'httproute'],
    ['Class', 'class', 'class', 'class'],
    ['V2Store', 'v2Store', 'v2-store', 'v2store'],
  ])('%s becomes %s in code, %s in file names, and %s in the API', (kind, camelCase, kebabCase, lowerCase) => {
    const names = replacements(namesOf('my-operator', { kind }));
    expect(['sampleKind', 'sample-kind', 'samplekind'].map((name) => names.get(name))).toEqual([
      camelCase,
      kebabCase,
      lowerCase,
    ]);
  });

  test.each([
    ['My Operator', {}, 'folder: got "My Operator"'],
    ['-a', {}, 'folder: got "-a"'],
    ['a-', {}, 'folder: got "a-"'],
    ['a'.repeat(54), {}, `folder: got "${'a'.repeat(54)}"`],
    ['a', { kind: 'greeting' }, 'kind: got "greeting"'],
    ['a', { kind: 'Web-Site' }, 'kind: got "Web-Site"'],
    ['a', { kind: '' }, 'kind: got ""'],
    ['a', { kind: 'ConfigMap' }, 'kind: got "ConfigMap"'],
    ['a', { kind: 'Error' }, 'kind: got "Error"'],
    // Its file would be src/main.ts.
    ['a', { kind: 'Main' }, 'kind: got "Main"'],
    ['a', { group: 'example' }, 'group: got "example"'],
    ['a', { group: 'Example.com' }, 'group: got "Example.com"'],
    ['a', { group: 'sample.k8s.io' }, 'group: got "sample.k8s.io"'],
    ['a', { plural: 'Greetings' }, 'plural: got "Greetings"'],
  ])('%j with %j is refused', (operator, given, message) => {
    expect(() => namesOf(operator, given)).toThrow(message);
  });

  test('that the templates import are no kinds', () => {
    const imports = globSync('**/*.ts', { cwd: template })
      .filter((file) => !file.startsWith('node_modules'))
      .flatMap((file) => [...readFileSync(join(template, file), 'utf8').matchAll(/^import (.+) from '.+';$/gm)]);
    const names = imports.flatMap(([, text = '']) => text.match(/\b[A-Z]\w*/g) ?? []);
    expect([...new Set(names)].filter((name) => name !== 'SampleKind').sort()).toEqual([...importedNames]);
  });
});

describe('a created operator', () => {
  const create = (given: Parameters<typeof createOperator>[0] = {}) =>
    createOperator({ folder: join(folder, 'my-operator'), ...given });

  test('has ten files to edit, and five with the settings of git, npm, TypeScript, Biome and Helm', async () => {
    const { files } = await create();
    expect(files).toEqual([
      '.github/workflows/ci.yml',
      '.gitignore',
      'Dockerfile',
      'README.md',
      'biome.json',
      'chart/Chart.yaml',
      'chart/templates/operator.yaml',
      'chart/values.yaml',
      'package.json',
      'src/greeting.ts',
      'src/main.ts',
      'test/greeting.test.ts',
      'test/integration.ts',
      'test/perturb.ts',
      'tsconfig.json',
    ]);
  });

  test('has nothing of the templates left, and its own names', async () => {
    const created = await create({ folder: join(folder, 'sample-kind-operator'), kind: 'WebSite', group: 'acme.org' });
    for (const file of created.files) {
      const text = await readFile(join(created.folder, file), 'utf8');
      expect({ file, found: text.match(/sample(?!-kind-operator).{0,20}/gi) }).toEqual({
        file,
        found: null,
      });
    }
    expect(await readFile(join(created.folder, 'src/web-site.ts'), 'utf8')).toContain("group: 'acme.org'");
    const manifest = JSON.parse(await readFile(join(created.folder, 'package.json'), 'utf8'));
    expect(manifest.name).toBe('sample-kind-operator');
  });

  test('pins every version', async () => {
    const created = await create();
    const manifest = JSON.parse(await readFile(join(created.folder, 'package.json'), 'utf8'));
    const own = JSON.parse(await readFile(join(template, '../package.json'), 'utf8'));
    const versions = { ...manifest.dependencies, ...manifest.devDependencies };
    for (const version of Object.values(versions)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(versions).toMatchObject({
      '@echoperator/cli': own.version,
      '@echoperator/runtime': own.version,
      '@echoperator/testing': own.version,
    });
    const workflow = await readFile(join(created.folder, '.github/workflows/ci.yml'), 'utf8');
    const uses = [...workflow.matchAll(/uses: (.+)$/gm)].map(([, action]) => action);
    expect(uses.length).toBeGreaterThan(1);
    for (const action of uses) expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  test('builds its bundle, runs it and tests it with one major of Node', async () => {
    const created = await create();
    const dockerfile = await readFile(join(created.folder, 'Dockerfile'), 'utf8');
    const [, major] = /^FROM docker\.io\/library\/node:(\d+)\.\d+\.\d+-/m.exec(dockerfile) ?? [];
    expect(dockerfile).toContain(`FROM gcr.io/distroless/nodejs${major}-debian13:nonroot\n`);
    const { scripts } = JSON.parse(await readFile(join(created.folder, 'package.json'), 'utf8'));
    expect(scripts.build).toContain(`--target=node${major} `);
    const workflow = parse(await readFile(join(created.folder, '.github/workflows/ci.yml'), 'utf8'));
    expect(workflow.jobs.test.steps).toContainEqual(
      expect.objectContaining({ with: expect.objectContaining({ 'node-version': Number(major) }) }),
    );
  });

  test('has only scripts that its README explains and its workflow knows', async () => {
    const created = await create();
    const { scripts } = JSON.parse(await readFile(join(created.folder, 'package.json'), 'utf8'));
    const readme = await readFile(join(created.folder, 'README.md'), 'utf8');
    for (const name of Object.keys(scripts)) expect(readme).toMatch(new RegExp(`npm (?:run )?${name}\\b`));
    const workflow = await readFile(join(created.folder, '.github/workflows/ci.yml'), 'utf8');
    for (const [, name = ''] of workflow.matchAll(/npm run ([\w-]+)/g)) expect(scripts).toHaveProperty(name);
  });

  test('is the one that docs/getting-started.md describes', async () => {
    const page = readFileSync(join(template, '../../../docs/getting-started.md'), 'utf8');
    const [, words = ''] = /^ {4}\$ npm create @echoperator\/operator (.+)$/m.exec(page) ?? [];
    const [name = '', ...options] = words.split(' ');
    const path = join(folder, name);
    expect(await runCommand([path, ...options.slice(1)], { out: () => {}, error: () => {} })).toBe(0);
    const rows = [...page.matchAll(/^\| (`.+?) \|/gm)].flatMap(([, cell = '']) => cell.match(/[^`, ]+(?=`)/g) ?? []);
    expect(rows).toHaveLength(10);
    for (const file of rows) expect({ file, exists: existsSync(join(path, file)) }).toEqual({ file, exists: true });
    const { scripts } = JSON.parse(await readFile(join(path, 'package.json'), 'utf8'));
    const named = [...page.matchAll(/^ {4}\$ npm run (\w+)$/gm)].map(([, script = '']) => script);
    expect(named).toEqual(['generate', 'lint', 'dev']);
    for (const script of named) expect(scripts).toHaveProperty(script);
    const source = await readFile(join(path, 'src/greeting.ts'), 'utf8');
    expect(source).toContain("version: 'v1alpha1'");
    expect(source).toContain('text: spec.text');
  });

  test('may be in a new repository of git', async () => {
    await mkdir(join(folder, 'my-operator/.git'), { recursive: true });
    await create();
    expect(existsSync(join(folder, 'my-operator/src/greeting.ts'))).toBe(true);
  });

  test('is not written into a folder with other files, or over a file', async () => {
    await writeFile(join(folder, 'README.md'), 'mine');
    const path = join(folder, 'README.md');
    await expect(createOperator({ folder, kind: 'Greeting' })).rejects.toThrow(/^folder: got ".+, takes /);
    await mkdir(join(folder, 'used'));
    await writeFile(join(folder, 'used/notes'), 'mine');
    await expect(create({ folder: join(folder, 'used') })).rejects.toThrow(
      `folder: got "${join(folder, 'used')}", takes a new or empty folder: it has notes`,
    );
    expect(await readdir(join(folder, 'used'))).toEqual(['notes']);
    expect(await readFile(path, 'utf8')).toBe('mine');
  });
});

describe('the command', () => {
  const run = async (...args: readonly string[]) => {
    const lines = { out: [] as string[], error: [] as string[] };
    const code = await runCommand(args, {
      out: (line) => lines.out.push(line),
      error: (line) => lines.error.push(line),
    });
    return { code, out: lines.out.join('\n'), error: lines.error.join('\n') };
  };

  test('creates the operator, and says what to do next', async () => {
    const path = join(folder, 'web');
    const { code, out, error } = await run(path, '--kind=WebSite', '--group', 'acme.org', '--plural', 'sites');
    expect({ code, error }).toEqual({ code: 0, error: '' });
    expect(out).toContain('npm install');
    expect(await readFile(join(path, 'src/web-site.ts'), 'utf8')).toContain("plural: 'sites'");
  });

  test.each([
    [['--kind', 'x'], 'kind: got "x", takes '],
    [['a', 'b'], 'folder: got one more, "b", takes one'],
    [['--king', 'x'], "Unknown option '--king'"],
    [['--kind'], "Option '--kind <value>' argument missing"],
  ])('refuses %j with exit code 2', async (args, message) => {
    const { code, error } = await run(...args);
    expect(code).toBe(2);
    expect(error).toContain(message);
    expect(error).toContain('npm create @echoperator/operator');
  });

  test('explains itself', async () => {
    expect(await run('--help')).toMatchObject({ code: 0, out: expect.stringContaining('--plural') });
  });
});
