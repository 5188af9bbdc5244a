import { existsSync, globSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join, normalize, relative } from 'node:path';
import * as builtInKinds from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { TSchema } from 'typebox';
import { Check, Errors } from 'typebox/value';
import { parse, parseAllDocuments } from 'yaml';
import { readConfig } from '../../src/config.ts';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { controllerNames } from '../../src/kinds.ts';
import { kinds } from '../../src/operator.ts';
import { codeBlocks, codeIn, headingAnchors, linksOf, tableAfter } from '../../testkit/markdown.ts';
import { clusterPackages } from '../../tools/debian.ts';
import { pageOf } from '../../tools/generate/file-names.ts';
import { logLines } from '../../tools/generate/generate-log-lines.ts';
import { ofExternal, ofRuntime } from '../../tools/generate/generate-operations.ts';
import { guideFiles, websiteFile } from '../package/environment/guide.ts';
import { pagesRunElsewhere } from '../plans/index.ts';
import { typeErrors } from './environment/type-check.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const page = (name: string): string => read(`docs/${name}.md`);

const notOurs = ['node_modules/**', 'dist/**', 'coverage/**', 'site/dist/**', 'site/node_modules/**'];
const pages = globSync('**/*.md', { cwd: root, exclude: notOurs }).sort();

describe('links', () => {
  test('are looked for in every page', () => {
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/index.md', 'charts/echoperator/README.md']));
  });

  test.each(pages)('of %s lead to existing files and headings', (path) => {
    const broken = linksOf(read(path))
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => {
        const [file = '', anchor] = link.split('#');
        const target = file === '' ? path : normalize(join(dirname(path), file));
        if (!existsSync(join(root, target))) return true;
        return anchor !== undefined && !headingAnchors(read(target)).includes(anchor);
      });
    expect(broken).toEqual([]);
  });

  test('of docs/index.md lead to every page beside it', () => {
    const linked = linksOf(page('index'));
    const others = pages.filter((path) => dirname(path) === 'docs').map((path) => relative('docs', path));
    expect(others.filter((name) => name !== 'index.md' && !linked.includes(name))).toEqual([]);
  });
});

describe('the settings of docs/operations.md', () => {
  const rows = tableAfter(page('operations'), '| variable |');
  const chartValues: unknown = parse(read('charts/echoperator/values.yaml'));

  /** `ha.nodeId` is read from HA_NODE_ID. */
  const variables = (config: object, prefix = ''): [string, unknown][] =>
    Object.entries(config).flatMap(([key, value]) => {
      const name = `${prefix}${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
      if (Array.isArray(value)) return [[name, value.join(',')]];
      if (typeof value !== 'object' || value === null) return [[name, value]];
      return isVariable(name) ? [[name, JSON.stringify(value)]] : variables(value, `${name}_`);
    });

  /** The alternative is a group of variables, such as HA. */
  const isVariable = (name: string): boolean => {
    try {
      readConfig({ [name]: ' ' });
      return false;
    } catch {
      return true;
    }
  };
  const defaults = new Map(variables(readConfig({})));

  test('has every variable of the config, and no other, with its default', () => {
    const spoken = (value: unknown): string => {
      if (value === undefined) return 'none';
      return value === hostname() ? "the host's name" : `\`${value}\``;
    };
    const expected = [...defaults].map(([name, value]) => [name, spoken(value)]);
    expect(rows.map((row) => [codeIn(row.variable), row.default]).sort()).toEqual(expected.sort());
  });

  test.each(rows)('says what $variable takes, in the words of its error', ({ variable, takes }) => {
    const name = codeIn(variable);
    expect(() => readConfig({ [name]: ' ' })).toThrow(`${name}: got " ", takes ${takes}`);
  });

  test('says which value of the chart sets a variable, and its default where it differs', () => {
    const set = [...read('charts/echoperator/templates/_config.tpl').matchAll(/^(\w+): \{\{ \.Values\.([\w.]+)/gm)];
    const expected = set.map(([, name = '', path = '']) => {
      const value = path.split('.').reduce<unknown>((part, key) => (part as Record<string, unknown>)[key], chartValues);
      expect(value).toBeDefined();
      // A list or a map is JSON in the environment.
      const isSame = typeof value === 'object' || String(value) === String(defaults.get(name) ?? '');
      return [name, isSame ? `\`${path}\`` : `\`${path}\`, there \`${value}\``];
    });
    const said = rows.filter((row) => row['chart value']?.startsWith('`'));
    expect(said.map((row) => [codeIn(row.variable), row['chart value']]).sort()).toEqual(expected.sort());
  });
});

describe('the metrics of docs/operations.md', () => {
  const text = page('operations');

  test.each([
    ['the runtime', 'metric', ofRuntime()],
    ['the controllers for external systems', 'metric of external systems', ofExternal()],
  ])('has every metric of %s, and no other, with type and labels', async (_, title, registry) => {
    const registered = registry.getMetricsAsArray() as unknown as { name: string; labelNames: string[] }[];
    const types = new Map((await registry.getMetricsAsJSON()).map(({ name, type }) => [name, String(type)]));
    const expected = registered.map(({ name, labelNames }) => [name, types.get(name), labelNames.toSorted()]);
    const said = tableAfter(text, `| ${title} | type | labels |`).map((row) => [
      codeIn(row[title]),
      row.type,
      [...(row.labels ?? '').matchAll(/`(\w+)`/g)].map(([, label]) => label).sort(),
    ]);
    expect(said.sort()).toEqual(expected.sort());
  });

  test('names no metric that there is not', () => {
    const everything = Registry.merge([ofRuntime(), ofExternal()]);
    collectDefaultMetrics({ register: everything });
    const known = everything.getMetricsAsArray().map(({ name }) => name);
    const prefixes =
      'controller_(?:runtime|event|stuck)|workqueue|rest_client|process|nodejs|informer|reflector|leader_election|grpc_client|echoperator_(?:outside|postgres)';
    const mentioned = pages.flatMap((path) =>
      [...read(path).matchAll(new RegExp(`\\b(?:${prefixes})_\\w+`, 'g'))].map(([name]) =>
        name.replace(/_(?:bucket|sum|count)$/, ''),
      ),
    );
    expect(mentioned.length).toBeGreaterThan(20);
    expect(mentioned.filter((name) => !known.includes(name))).toEqual([]);
  });
});

// `make generate` writes the content of the parts.
describe.each(controllerNames)('the page of the kind of the controller %s', (name) => {
  test.each(['names', 'spec', 'status', 'reasons', 'columns', 'permissions'])('has the generated part %s', (part) => {
    expect(read(pageOf(name))).toMatch(new RegExp(`^<!-- The ${part}: generated .*-->\n\n\\|`, 'm'));
  });
});

test('docs/book-store.md has the outermost fields of each part of the spec in tables of its own', () => {
  for (const [part, { properties = {} }] of Object.entries<Schema>(BookStore.definition.spec.properties)) {
    const rows = tableAfter(page('book-store'), `| field of ${part} |`);
    const said = rows.flatMap((row) =>
      [...(row[`field of ${part}`] ?? '').matchAll(/`(\w+)`/g)].map(([, field]) => field),
    );
    expect(said.sort()).toEqual(Object.keys(properties).sort());
  }
});

describe('docs/echo.md', () => {
  test('has every phase', () => {
    const phases = tableAfter(page('echo'), '| phase |').map((row) => codeIn(row.phase));
    expect(phases).toEqual((Echo.definition.status.properties.phase as { enum?: string[] }).enum);
  });
});

describe('the objects that the pages show', () => {
  /** The manifests of a block: the block itself, or the here-documents that a shell passes to kubectl. */
  const manifestsIn = (text: string): readonly string[] =>
    /^(?:apiVersion|data): ?/.test(text)
      ? [text]
      : [...text.matchAll(/<<'?END'?\n([\s\S]*?)^END$/gm)].map(([, body = '']) => body);

  const objects = pages.flatMap((path) =>
    codeBlocks(read(path))
      .flatMap(({ text }) => manifestsIn(text))
      .flatMap((manifest) => parseAllDocuments(manifest).map((each) => ({ path, object: each.toJS() }))),
  );

  const problems = (schema: TSchema, value: unknown): string[] =>
    Check(schema, value) ? [] : Errors(schema, value).map(({ instancePath, message }) => `${instancePath} ${message}`);

  test('are found: each kind on its page', () => {
    const found = objects.map(({ path, object }) => `${path} ${object.kind}`);
    expect(found).toEqual(expect.arrayContaining(['README.md Echo', 'docs/writing-an-operator.md Greeting']));
    expect(found).toEqual(expect.arrayContaining(kinds.map(({ kind }) => expect.stringMatching(`^docs/.* ${kind}$`))));
  });

  test.each(objects)(
    '$path: $object.kind $object.metadata.name has only fields that the kind declares',
    ({ object }) => {
      const kind = kinds.find(({ definition }) => object.apiVersion === `${definition.group}/${definition.version}`);
      if (kind === undefined) return;
      const declared = kinds.find((each) => each.kind === object.kind);
      expect(object).toMatchObject({ kind: declared?.kind, metadata: { name: expect.any(String) } });
      const { spec, status } = declared?.definition ?? kind.definition;
      expect(problems(spec, object.spec)).toEqual([]);
      expect(unknownFields(spec, object.spec)).toEqual([]);
      expect(problems(status, object.status ?? {})).toEqual([]);
      expect(unknownFields(status, object.status ?? {})).toEqual([]);
    },
  );

  test('include parts of a spec with only fields that the kind declares', () => {
    const parts = codeBlocks(page('book-store')).filter(({ text }) => text.trimStart().startsWith('bookApp:'));
    expect(parts).toHaveLength(1);
    for (const { text } of parts) expect(unknownFields(BookStore.definition.spec, parse(text))).toEqual([]);
  });
});

/** The paths of the fields that a schema does not declare. A schema without properties takes any field. */
function unknownFields(schema: Schema, value: unknown, path = ''): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item) => unknownFields(schema.items ?? {}, item, `${path}[]`));
  if (typeof value !== 'object' || value === null || schema.properties === undefined) return [];
  const { properties } = schema;
  return Object.entries(value).flatMap(([name, part]) => {
    const declared = properties[name];
    return declared === undefined ? [`${path}.${name}`] : unknownFields(declared, part, `${path}.${name}`);
  });
}

interface Schema {
  readonly $ref?: string;
  readonly definitions?: Readonly<Record<string, Schema>>;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

describe("the chart's values that the pages name", () => {
  const whole: Schema = JSON.parse(read('charts/echoperator/values.schema.json'));

  /** Replaces each `$ref` by the definition. */
  const inlined = (part: Schema): Schema => {
    const name = part.$ref?.replace('#/definitions/', '');
    const definition = name === undefined ? undefined : whole.definitions?.[name];
    if (definition !== undefined) return inlined(definition);
    const properties = Object.entries(part.properties ?? {}).map(([name, value]) => [name, inlined(value)] as const);
    return { ...part, ...(part.properties && { properties: Object.fromEntries(properties) }) };
  };
  const schema = inlined(whole);
  const tree = (path: string): object => path.split('.').reduceRight<object>((part, name) => ({ [name]: part }), {});
  const isKnown = (path: string): boolean => unknownFields(schema, tree(path)).length === 0;

  test('with --set exist', () => {
    const options = pages
      .flatMap((path) => [...read(path).matchAll(/--set '?([^\s'`]+)/g)])
      .flatMap(([, assignments = '']) => assignments.replaceAll(/\{[^}]*\}/g, '').split(','))
      .map((assignment) => assignment.split('=')[0] ?? '');
    expect(options.length).toBeGreaterThan(15);
    expect(options.filter((path) => !isKnown(path))).toEqual([]);
  });

  test('in code spans exist', () => {
    const named = pages
      .filter((path) => path !== 'CHANGELOG.md')
      .flatMap((path) =>
        [...read(path).matchAll(/`([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)+)(?:=[^`]*)?`/g)].map(([, name = '']) => name),
      )
      // A finalizer and a file begin with the name of a value.
      .filter((name) => !/\.(?:com|db|proto|NAME)\b/.test(name) && isKnown(name.split('.')[0] ?? ''));
    expect(named.length).toBeGreaterThan(100);
    expect(named.filter((name) => !isKnown(name))).toEqual([]);
  });

  test('in blocks of YAML exist', () => {
    const blocks = pages
      .flatMap((path) => codeBlocks(read(path)))
      .filter(({ language, text }) => language === 'yaml' && !/^(?:apiVersion|data| )/.test(text));
    expect(blocks.length).toBeGreaterThan(1);
    for (const { text } of blocks) expect(unknownFields(schema, parse(text))).toEqual([]);
  });
});

describe('the commands that the pages show', () => {
  const commands = pages.flatMap((path) =>
    [...read(path).matchAll(/\bkubectl ((?:[^\n`|;&)]|\\\n)+)/g)].map(([, command = '']) => ({
      path,
      words: command
        .replaceAll(/(--?[\w-]+)(?:=| )(?:'[^']*'|"[^"]*"|(?!-)[^\s]+)/g, '')
        .replaceAll('\\\n', ' ')
        .split(/\s+/),
    })),
  );
  const custom = kinds.flatMap(({ kind, plural, definition }) => [
    kind.toLowerCase(),
    plural,
    `${plural}.${definition.group}`,
    ...(definition.shortNames ?? []),
  ]);

  test('name only resources that exist', () => {
    const builtIn = Object.values(builtInKinds).flatMap(({ kind, plural }) => [kind.toLowerCase(), plural]);
    const short = ['pod', 'pods', 'crd', 'pvc', 'pv'];
    // The kinds of the guide and of a new operator, and a placeholder.
    const versions = ['greetings.v1alpha1.example.com', 'greetings.v1.example.com'];
    const ofThePage = ['greeting', 'greetings', ...versions, 'samplekind', 'KIND'];
    const known = new Set([...custom, ...builtIn, ...short, ...ofThePage]);
    const verbs = ['get', 'describe', 'delete', 'wait', 'patch', 'edit', 'explain'];
    const named = commands.flatMap(({ path, words: [verb = '', resources = ''] }) => {
      if (!verbs.includes(verb) || resources === '') return [];
      const end = verb === 'explain' ? /[/.]/ : '/';
      return resources.split(',').map((resource) => ({ path, resource: resource.split(end)[0] ?? '' }));
    });
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter(({ resource }) => !known.has(resource))).toEqual([]);
  });
});

describe('the blocks of commands', () => {
  const [ofPages, ofPagesNightly] = ['test/kinds/commands.test.ts', 'test/kinds/commands.nightly.test.ts'] as const;
  const ofReleases = 'test/e2e/helm-install-page.nightly.test.ts';
  /**
   * Which test runs the commands of a section; or of a whole page, whose blocks it counts; or why none does. The
   * commands of another page of a kind are run by the test of all such pages.
   */
  const tests: Readonly<Record<string, string>> = {
    'README.md': ofReleases,
    'docs/alerts.md': ofPages,
    'docs/book-store.md#BookStore': ofPagesNightly,
    'docs/book-store.md#Growing a volume': ofPagesNightly,
    'docs/book-store.md#Moving the data to another StorageClass': ofPagesNightly,
    'docs/book-store.md#Troubleshooting': ofPagesNightly,
    'docs/echo.md': ofPages,
    // Its other commands bring up a cluster with the image, as every suite on a cluster does.
    'docs/install.md#Install': ofReleases,
    'docs/install.md#From a release': 'not run: nightly-release installs from registries on loopback',
    'docs/install.md#With kubectl only': ofReleases,
    'docs/install.md#Without cluster-wide rights': ofReleases,
    'docs/install.md#From a mirror': 'test/e2e/image-registry.nightly.test.ts',
    'docs/stability.md#How to leave': 'test/release/rehearsal.nightly.test.ts',
    'docs/operations.md#Probes': ofPages,
    'docs/operations.md#Explain': ofPages,
    'docs/operations.md#Upgrades': ofReleases,
    'docs/operations.md#From the original operators': ofReleases,
    'docs/operations.md#Uninstall': ofReleases,
    'docs/operations.md#Outside of a cluster': ofReleases,
    'docs/pet.md#Pet': 'test/kinds/external.test.ts',
    'docs/pet.md#Deletion': ofPagesNightly,
    'docs/pet-store.md#The command line': 'test/integration/petstore.test.ts',
    'docs/pet-store.md#Operate it':
      'not run: grpcurl is not at hand; test/integration/petstore.test.ts asks for reflection',
    // All but psql, in whose place the test reads the rows with options.
    'docs/plan.md': 'not run: jq is not at hand; test/integration/plan-command.test.ts runs the program',
    'docs/postgres-writer.md#PostgresWriter': 'test/kinds/external.test.ts',
    'docs/postgres-writer.md#Set it up': ofPagesNightly,
    'docs/troubleshooting.md': ofPages,
    'docs/version-and-webhook.md': 'test/package/webhooks.nightly.test.ts',
    'docs/writing-an-operator.md': 'test/package/environment/guide.ts',
    'docs/lower-layer.md': 'test/package/environment/guide.ts',
  };
  const sections = pages
    .filter((path) => path === 'README.md' || dirname(path) === 'docs')
    .flatMap((path) =>
      read(path)
        .split(/^## /m)
        .filter((section) =>
          codeBlocks(section).some(({ language, text }) => language === 'console' || /^helm /m.test(text)),
        )
        .map((section) => ({ path, heading: (section.split('\n')[0] ?? '').replace(/^# /, '') })),
    );

  test.each(sections)('of $path, $heading, are run by a test that names them', ({ path, heading }) => {
    const isNamed = Object.keys(tests).some((key) => key.split('#')[0] === path);
    const isOfKind = controllerNames.some((name) => pageOf(name) === path && !pagesRunElsewhere.includes(name));
    if (!isNamed && isOfKind) return;
    const ofSection = tests[`${path}#${heading}`];
    const file = ofSection ?? tests[path];
    if (file === undefined) throw new Error(`name the test that runs these commands in \`tests\` of docs.test.ts`);
    if (file.startsWith('not run: ')) return;
    const text = read(file);
    expect(text).toMatch(new RegExp(`${basename(path)}|'${basename(path, '.md')}'`));
    if (ofSection !== undefined) expect(text).toContain(heading);
  });

  test('names no section that there is not', () => {
    const named = Object.keys(tests).filter((key) => key.includes('#'));
    expect(named.filter((key) => !sections.some(({ path, heading }) => key === `${path}#${heading}`))).toEqual([]);
  });
});

describe('docs/troubleshooting.md', () => {
  test('has the warnings and errors of the log, and quotes in its tables of symptoms no line that is not logged', async () => {
    const logged = await logLines(root);
    const severe = tableAfter(page('troubleshooting'), '| level | msg |');
    expect(severe.length).toBeGreaterThan(10);
    const quoted = [...page('troubleshooting').matchAll(/^\| ([^|]*)\|/gm)]
      .flatMap(([, symptom = '']) => [...symptom.matchAll(/`([a-z][^`…/]* [^`…]*)`/g)].map(([, line]) => line))
      .filter((line) => !/^(?:helm |failed pre-|pre-upgrade |not sent: |only http )/.test(line ?? ''));
    const messages = logged.map(({ message }) => message);
    expect(quoted.length).toBeGreaterThan(2);
    expect(quoted.filter((line) => !messages.includes(line ?? ''))).toEqual([]);
  });
});

describe('the test cluster in CONTRIBUTING.md', () => {
  const text = read('CONTRIBUTING.md');

  test('has every command of `npm run cluster`', async () => {
    const { stdout } = await execa(process.execPath, [join(root, 'tools/cluster/main.ts'), '--help']);
    const [, commands = ''] = stdout.split(/^Commands:$|^Options:$/m);
    const expected = [...commands.matchAll(/^ {2}(\S.*?) {2,}/gm)].map(([, command]) => `\`${command}\``);
    expect(expected.length).toBeGreaterThan(4);
    expect(tableAfter(text, '| command |').map((row) => row.command)).toEqual(expected);
  });

  test('has the packages that are installed, and the version of Kubernetes', () => {
    expect(text.replaceAll(/\s+/g, ' ')).toContain(`Missing packages are installed: ${clusterPackages.join(', ')}.`);
    const [, version] = /^\s*k8s\.io\/kubernetes v(\S+)/m.exec(read('tools/programs/kubernetes/go.mod')) ?? [];
    expect(text).toContain(`Kubernetes ${version}, unchanged.`);
  });
});

describe('docs/writing-an-operator.md', () => {
  test('needs less than 45 lines for a kind with its controller', () => {
    expect(guideFiles['greeter.ts']?.trimEnd().split('\n').length).toBeLessThan(45);
  });

  test('like docs/testing.md and README.md, shows TypeScript that type-checks against the runtime', async () => {
    const shown = ['writing-an-operator', 'lower-layer', 'plan', 'testing']
      .flatMap((name) => codeBlocks(page(name)))
      .filter(({ language }) => language === 'ts');
    expect(shown).toHaveLength(Object.keys(guideFiles).length);
    const [inReadme = '', ...others] = codeBlocks(read('README.md')).flatMap(({ language, text }) =>
      language === 'ts' ? [text] : [],
    );
    expect(others).toEqual([]);
    expect(inReadme.trimEnd().split('\n').length).toBeLessThanOrEqual(22);
    const files = { ...guideFiles, 'readme.ts': inReadme, 'website.ts': websiteFile };
    expect(await typeErrors(files)).toBe('');
  });
});

test('docs/versions.md shows TypeScript that type-checks against the runtime', async () => {
  const [greeter = '', main = '', manifests = '', ...others] = codeBlocks(page('versions')).flatMap(
    ({ language, text }) => (language === 'ts' ? [text] : []),
  );
  expect(others).toEqual([]);
  const { 'greeter.ts': first = '' } = guideFiles;
  const files = { 'greeter.ts': first, 'versions.ts': greeter, 'serve.ts': main, 'manifests.ts': manifests };
  expect(await typeErrors(files, { declaration: false })).toBe('');
});

test('docs/version-and-webhook.md shows TypeScript that type-checks against the runtime', async () => {
  const [greeting = '', declared = '', main = '', print = '', ...others] = codeBlocks(
    page('version-and-webhook'),
  ).flatMap(({ language, text }) => (language === 'ts' ? [text] : []));
  expect(others).toEqual([]);
  const files = { 'greeting.ts': greeting, 'webhooks.ts': declared, 'main.ts': main, 'print-webhooks.ts': print };
  expect(await typeErrors(files, { declaration: false })).toBe('');
});

test('docs/admission.md shows TypeScript that type-checks against the runtime', async () => {
  const [admission = '', main = '', manifests = '', ...others] = codeBlocks(page('admission')).flatMap(
    ({ language, text }) => (language === 'ts' ? [text] : []),
  );
  expect(others).toEqual([]);
  const { 'greeter.ts': greeter = '' } = guideFiles;
  const files = {
    'greeter.ts': greeter,
    'greeting-admission.ts': admission,
    'serve.ts': main,
    'manifests.ts': manifests,
  };
  expect(await typeErrors(files, { declaration: false })).toBe('');
});
