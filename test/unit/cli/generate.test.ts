import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { leasePermissions } from '@echoperator/runtime';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { runCommand } from '../../../packages/cli/src/run-command.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'echoperator-generate-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const runtime = join(import.meta.dirname, '../../../packages/runtime/src/index.ts');
const kinds = join(import.meta.dirname, '../../../packages/runtime/src/built-in-kinds/index.ts');
const typebox = import.meta.resolve('typebox');

/** A module with the controllers of a Greeting and of a Poem. */
const source = (more = '', controllers = '[poems, greetings]'): string => `
import { defineController, defineKind } from ${JSON.stringify(runtime)};
import { ConfigMap } from ${JSON.stringify(kinds)};
import Type from ${JSON.stringify(typebox)};

const kindOf = (kind, plural) => defineKind({
  group: 'example.com', version: 'v1', kind, plural, description: kind + ' is read aloud.',
  spec: Type.Object({ who: Type.String({ minLength: 1, maxLength: 100, description: 'The listener.' }) }),
  status: Type.Object({}),
});
const Greeting = kindOf('Greeting', 'greetings');
const Song = kindOf('Song', 'songs');
const reasons = { Read: { ready: 'True', event: 'Normal', meaning: 'It was read.' } };
const reconcile = async () => ({ reason: 'Read', message: 'read' });
const greetings = defineController(Greeting, { owns: [ConfigMap], reasons, reconcile });
const poems = defineController(kindOf('LongPoem', 'longpoems'), { reasons, reconcile });
export const controllers = ${controllers};
${more}`;

interface Run {
  readonly exitCode: number;
  readonly out: readonly string[];
  readonly error: readonly string[];
}

async function run(...args: readonly string[]): Promise<Run> {
  const out: string[] = [];
  const error: string[] = [];
  // Each path relative to the folder of the test.
  const short = (line: string): string => line.replaceAll(`${folder}/`, '').replaceAll(`${relative('.', folder)}/`, '');
  const exitCode = await runCommand(args, {
    out: (line) => void out.push(short(line)),
    error: (line) => void error.push(short(line)),
  });
  return { exitCode, out, error };
}

let modules = 0;

/** Runs the command for a module of this content. */
async function generate(text: string, ...options: readonly string[]): Promise<Run> {
  // A module is imported only once for each path.
  const module = join(folder, `controllers-${modules++}.js`);
  await writeFile(module, text);
  return run('generate', module, '--chart', join(folder, 'chart'), '--docs', join(folder, 'docs'), ...options);
}

const read = (path: string): Promise<string> => readFile(join(folder, path), 'utf8');

describe('generate', () => {
  test('writes a definition and a page for each kind, and the rules of all controllers, sorted', async () => {
    const { exitCode, out } = await generate(source());
    expect({ exitCode, out: [...out].sort() }).toEqual({
      exitCode: 0,
      out: [
        'wrote chart/crds/greetings.example.com.yaml',
        'wrote chart/crds/longpoems.example.com.yaml',
        'wrote chart/files/rules.yaml',
        'wrote docs/greeting.md',
        'wrote docs/long-poem.md',
      ],
    });
    const crd = await read('chart/crds/longpoems.example.com.yaml');
    expect(crd).toMatch(/^# Generated from \S+\.js by `echoperator-cli generate`: change it there\.\n---\n/);
    expect(parse(crd)).toMatchObject({ kind: 'CustomResourceDefinition', spec: { names: { kind: 'LongPoem' } } });
    const rules: { readonly apiGroups: readonly string[]; readonly resources: readonly string[] }[] = parse(
      await read('chart/files/rules.yaml'),
    );
    expect(rules.map(({ apiGroups, resources }) => `${apiGroups}/${resources}`)).toEqual([
      '/configmaps',
      'events.k8s.io/events',
      'example.com/greetings',
      'example.com/greetings/finalizers',
      'example.com/greetings/status',
      'example.com/longpoems',
      'example.com/longpoems/status',
    ]);
  });

  test('writes the same rules for another order of the controllers', async () => {
    await generate(source());
    const { out } = await generate(source('', '[greetings, poems]'));
    const body = async () => (await read('chart/files/rules.yaml')).replace(/^#.*\n/, '');
    const first = await body();
    await generate(source());
    expect(await body()).toBe(first);
    // The first line names the module.
    expect(out).toContain('wrote chart/files/rules.yaml');
  });

  test('with leader election writes the rules for Leases', async () => {
    await generate(source('export const leaderElection = true;'));
    expect(parse(await read('chart/files/lease-rules.yaml'))).toEqual(leasePermissions);
  });

  test('with the name of the Lease limits the rules to it, as far as RBAC can', async () => {
    await generate(source("export const leaderElection = 'greeter';"));
    const lease = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };
    expect(parse(await read('chart/files/lease-rules.yaml'))).toEqual([
      { ...lease, verbs: ['list', 'create'] },
      { ...lease, resourceNames: ['greeter'], verbs: ['get', 'watch', 'update'] },
    ]);
  });

  test('writes the definition and a page of a kind without a controller, with neither reasons nor permissions', async () => {
    const { out } = await generate(source('export const kinds = [Song];'));
    expect(out).toEqual(expect.arrayContaining(['wrote chart/crds/songs.example.com.yaml', 'wrote docs/song.md']));
    const headings = [...(await read('docs/song.md')).matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual(['Spec', 'Status']);
  });

  test('removes what it wrote for a kind that is gone, and no file of others', async () => {
    await generate(source('export const leaderElection = true;'));
    await writeFile(join(folder, 'chart/crds/others.yaml'), 'kind: CustomResourceDefinition\n');
    const { out } = await generate(source('', '[greetings]'));
    expect(out).toEqual(
      expect.arrayContaining(['removed chart/crds/longpoems.example.com.yaml', 'removed chart/files/lease-rules.yaml']),
    );
    expect(await readdir(join(folder, 'chart/crds'))).toEqual(['greetings.example.com.yaml', 'others.yaml']);
    // The author may have added prose to it.
    expect(await readdir(join(folder, 'docs'))).toContain('long-poem.md');
  });

  test('keeps the prose of a page, the places of its parts, and their comments', async () => {
    await mkdir(join(folder, 'docs'));
    const page = (reasons: string) =>
      `# Greet\n\nProse.\n\n<!-- The reasons: generated by \`npm run x\`. -->\n\n${reasons}\n<!-- The end of the reasons. -->\n\nMore.\n`;
    await writeFile(join(folder, 'docs/greeting.md'), page('old\n'));
    await generate(source());
    const written = await read('docs/greeting.md');
    const table = /-->\n\n(.*)\n<!--/s.exec(written)?.[1] ?? '';
    expect(table).toMatch(/^\| reason of Ready \|/);
    expect(table).toContain('| `Read` | True | Normal | It was read. |');
    expect(written).toBe(page(table));
  });

  test('refuses a page without any part', async () => {
    await mkdir(join(folder, 'docs'));
    await writeFile(join(folder, 'docs/greeting.md'), '# Greeting\n');
    const { exitCode, error } = await generate(source());
    expect({ exitCode, error }).toEqual({
      exitCode: 1,
      error: [expect.stringMatching(/^docs\/greeting\.md has no generated part of the kind Greeting\. .*permissions/s)],
    });
  });

  test('refuses a part without its end', async () => {
    await mkdir(join(folder, 'docs'));
    await writeFile(join(folder, 'docs/greeting.md'), '<!-- The spec: generated. -->\n\n');
    expect((await generate(source())).error).toEqual([
      expect.stringMatching(/^docs\/greeting\.md lacks these lines.*<!-- The end of the spec\. -->/s),
    ]);
  });
});

describe('generate --check', () => {
  test('succeeds for files that are up to date', async () => {
    const module = join(folder, 'controllers.js');
    await writeFile(module, source());
    const options = ['generate', module, '--chart', join(folder, 'chart'), '--docs', join(folder, 'docs')];
    await run(...options);
    expect(await run(...options, '--check')).toEqual({ exitCode: 0, out: [], error: [] });
  });

  test('writes nothing, and names each file that is missing, differs or must not exist', async () => {
    await generate(source());
    const module = join(folder, 'changed.js');
    await writeFile(module, source('', '[greetings]').replace('The listener', 'The reader'));
    const before = await read('docs/greeting.md');
    await rm(join(folder, 'chart/files/rules.yaml'));
    const { exitCode, out, error } = await run(
      'generate',
      module,
      '--chart',
      join(folder, 'chart'),
      '--docs',
      join(folder, 'docs'),
      '--check',
    );
    const advice = 'run `echoperator-cli generate`';
    expect({ exitCode, out, error: [...error].sort() }).toEqual({
      exitCode: 1,
      out: [],
      error: [
        `chart/crds/greetings.example.com.yaml is out of date: ${advice}`,
        `chart/crds/longpoems.example.com.yaml must not exist: ${advice}`,
        `chart/files/rules.yaml is out of date: ${advice}`,
        `docs/greeting.md is out of date: ${advice}`,
      ],
    });
    expect(await read('docs/greeting.md')).toBe(before);
  });
});

describe('the error for a module', () => {
  test.each([
    [
      'export const other = 1;',
      'the export controllers is missing, takes a list of the values that defineController returns',
    ],
    ['export const controllers = [];', 'the export controllers is an empty list, takes'],
    ['export const controllers = [3];', 'the export controllers[0] is 3, takes a value that defineController returns'],
    [source('export const kinds = [{}];'), 'the export kinds[0] is an object, takes a value that defineKind returns'],
    [
      source('export const leaderElection = 3;'),
      'the export leaderElection is 3, takes true, false or the name of the Lease',
    ],
    [source("export const leaderElection = '';"), 'the export leaderElection is "", takes'],
    ['throw new Error("no database");', 'cannot be loaded: no database'],
  ])('%# names the file, the export and the value', async (text, message) => {
    const { exitCode, error } = await generate(text);
    expect({ exitCode, error }).toEqual({ exitCode: 1, error: [expect.stringContaining(message)] });
    expect(error[0]).toMatch(/^controllers-\d+\.js/);
  });

  test('that does not exist names the path', async () => {
    const { exitCode, error } = await run('generate', join(folder, 'none.ts'), '--docs', folder);
    expect({ exitCode, error }).toEqual({
      exitCode: 1,
      error: ['none.ts does not exist: name the module that exports `controllers`'],
    });
  });
});

describe('the command line', () => {
  test('without a command, and with an unknown one, prints the usage', async () => {
    const usage = expect.stringContaining('echoperator-cli generate [MODULE] [--chart DIR] [--docs DIR] [--check]');
    expect(await run()).toEqual({ exitCode: 2, out: [], error: [usage] });
    expect(await run('--help')).toEqual({ exitCode: 0, out: [usage], error: [] });
    expect(await run('grow')).toEqual({
      exitCode: 2,
      out: [],
      error: [expect.stringMatching(/^there is no command "grow"\nUsage:/)],
    });
  });

  test.each([
    [[], '--chart DIR or --docs DIR is required'],
    [['--charts', 'x'], "Unknown option '--charts'"],
    [['one.ts', 'two.ts', '--docs', 'x'], 'one module is expected, got one.ts and two.ts'],
  ])('generate %j is refused', async (args, message) => {
    const { exitCode, error } = await run('generate', ...args);
    expect({ exitCode, error }).toEqual({ exitCode: 2, error: [expect.stringContaining(message)] });
    expect(error[0]).toContain('Usage: echoperator-cli generate [MODULE]');
  });

  test('generate reads src/controllers.ts by default', async () => {
    expect((await run('generate', '--docs', folder)).error).toEqual([
      expect.stringMatching(/^src\/controllers\.ts does not exist/),
    ]);
  });
});
