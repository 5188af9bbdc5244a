import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { publishedPackages } from '../../tools/release/npm-package.ts';
import { typeErrors } from './environment/type-check.ts';

const packages = join(import.meta.dirname, '../../packages');

interface Example {
  /** For example `runtime/src/controller/watch.ts:144`. */
  readonly place: string;
  readonly code: string;
}

/**
 * The `@example` blocks of the docstrings. A block ends at an empty line before the next tag, or with the docstring.
 */
function examplesOf(file: string): readonly Example[] {
  const text = readFileSync(join(packages, file), 'utf8');
  return [...text.matchAll(/^ *\/\*\*[\s\S]*?\*\//gm)].flatMap((docstring) =>
    [...docstring[0].matchAll(/@example\b([\s\S]*?)(?=\n *\* @|\*\/)/g)].map(([, body = ''], n) => {
      const line = text.slice(0, docstring.index).split('\n').length;
      return { place: `${file}:${line}${n === 0 ? '' : `#${n}`}`, code: body.replaceAll(/^ *\* ?/gm, '').trim() };
    }),
  );
}

/** By exported name: the entry that exports it, from the reports of the API. */
function exportingEntries(): ReadonlyMap<string, string> {
  const sections = publishedPackages.flatMap((name) => {
    const [lists = ''] = readFileSync(join(packages, name, `${name}.api.md`), 'utf8').split('\n## Declarations');
    return lists.split('\n## ');
  });
  return new Map(
    sections.flatMap((section) => {
      const [entry = ''] = section.split(':');
      return [...section.matchAll(/^- (?:type )?`?(\w+)`?/gm)].map(([, name = '']) => [name, entry] as const);
    }),
  );
}

/** What the examples take from the program around them. */
const context: Readonly<Record<string, string>> = {
  applier: 'Applier',
  assert: '{ equal(actual: unknown, expected: unknown): void }',
  client: 'Client',
  connection: 'Connection',
  deployments: 'ReadonlyStore<Deployment>',
  echos: "Pick<Informer<Widget>, 'addIndex' | 'store'>",
  events: 'EventRecorder',
  expect: '(actual: unknown) => { toBeGreaterThan(least: number): void }',
  gate: 'Gate',
  greetingAdmission: 'DefinedAdmission',
  greetings: 'DefinedController',
  identity: 'string',
  jobKeyOf: '(key: ObjectKey) => ObjectKey',
  log: 'Logger',
  mailbox: "{ on(event: 'message', listener: (message: { widget: ObjectKey }) => void): void; close(): void }",
  manager: 'Manager',
  messages: '() => AsyncIterable<{ readonly widget: string }>',
  metrics: 'Metrics',
  pool: '{ query(options: { text: string; values: readonly unknown[]; signal: AbortSignal }): Promise<void> }',
  ready: 'Condition',
  recorder: 'FlightRecorder',
  reconcile: 'Reconcile',
  server: 'ApiServer',
  shop: 'Widget',
  shops: 'ReadonlyStore<Widget>',
  signal: 'AbortSignal',
  t: 'string',
  text: 'string',
  values: 'readonly unknown[]',
  widget: 'Widget',
};
const kindDeclarations = ['Echo', 'Greeting', 'Shop', 'Widget'].map(
  (kind) => `declare const ${kind}: CustomKind<Widget>;`,
);
const declarations = [
  'type Widget = CustomObject<object, object>;',
  ...kindDeclarations,
  'declare const GreetingV1: CustomKind<CustomObject<{ who: string }, object>>;',
  'declare const GreetingV1alpha1: CustomKind<CustomObject<{ name: string }, object>>;',
  'declare const deploymentOf: (shop: Widget) => Manifest<Deployment>;',
  "declare const reasons: Reasons<'Deployed' | 'DeploymentRefused' | 'NameTaken'>;",
  ...Object.entries(context).map(([name, type]) => `declare const ${name}: ${type};`),
];

/** An example as a module: options of a controller are given to one, an expression or statements are a function's. */
function moduleOf(code: string, entryOf: ReadonlyMap<string, string>): string {
  const isOption = /^(?:\/\/.*\n)*(?:owns|watches|sources): \[/.test(code);
  const own = code.replaceAll(/^import .*\n+/gm, '').replaceAll(/^export /gm, '');
  const body = isOption ? `manager.controller(Widget, { reconcile, ${own} });` : own;
  const foreign = [...code.matchAll(/^import .* from '@kubernetes\/client-node';$/gm)].map(([line]) => line);
  const used = new Set(`${declarations.join('\n')}\n${body}`.match(/\b\w+\b/g));
  const hidden = new Set([...Object.keys(context), 'Echo', 'Greeting', 'Shop', 'Widget', 'reasons']);
  const imports = [...used]
    .filter((name) => entryOf.has(name) && !hidden.has(name))
    .map((name) => `import { ${name} } from '${entryOf.get(name)}';`);
  const packages = ["import { pino } from 'pino';", "import * as Type from 'typebox';"];
  return [
    ...imports,
    ...packages,
    ...foreign,
    ...declarations,
    `export const example = async () => {\n${body}\n};`,
  ].join('\n');
}

test('the examples of the docstrings type-check', async () => {
  const files = globSync('*/src/**/*.ts', { cwd: packages }).sort();
  const examples = files.flatMap(examplesOf);
  expect(examples.length).toBeGreaterThan(20);
  const entryOf = exportingEntries();
  expect(new Set(entryOf.values()).size).toBeGreaterThan(7);
  const modules = examples.map(({ place, code }) => [`${place.replaceAll(/[/:#]/g, '-')}.ts`, moduleOf(code, entryOf)]);
  // The generated imports do not distinguish types from values, and an example may be a part of a function.
  expect(await typeErrors(Object.fromEntries(modules), { verbatimModuleSyntax: false, noImplicitReturns: false })).toBe(
    '',
  );
});
