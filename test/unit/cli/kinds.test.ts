import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { kindOf, readDefinitions } from '../../../packages/cli/src/import-kinds/definitions.ts';
import { kindsModule } from '../../../packages/cli/src/import-kinds/kinds-module.ts';
import { runCommand } from '../../../packages/cli/src/run-command.ts';
import { typeErrors } from '../environment/type-check.ts';

const definition = (schema: unknown, { kind = 'Thing', group = 'example.com' } = {}) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  spec: {
    group,
    names: { kind, plural: 'things' },
    scope: 'Namespaced',
    versions: [
      { name: 'v1beta1', served: true, schema: {} },
      { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } },
      { name: 'v1alpha1', served: false, schema: {} },
    ],
  },
});
const moduleOf = (schema: unknown) => kindsModule([kindOf(definition(schema))]);

const spec = {
  type: 'object',
  required: ['size', 'mode'],
  properties: {
    size: { type: 'integer', description: 'How big.' },
    mode: { type: 'string', default: 'a' },
    port: { 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, { type: 'string' }] },
    letter: { type: 'string', enum: ['a', "b'"] },
    nothing: { type: 'string', nullable: true },
    labels: { type: 'object', additionalProperties: { type: 'string' } },
    any: { 'x-kubernetes-preserve-unknown-fields': true },
    open: {
      type: 'object',
      'x-kubernetes-preserve-unknown-fields': true,
      properties: { known: { type: 'boolean' } },
    },
    template: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
    list: { type: 'array', items: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } } },
  },
};
const schema = { type: 'object', required: ['spec'], properties: { metadata: { type: 'object' }, spec } };

const use = `
import { controllerReference, type Client, owns } from '@echoperator/runtime';
import { Thing } from './things.ts';
export async function use(client: Client) {
  const metadata = { name: 'a', namespace: 'b' };
  const thing = await client.get(Thing, metadata);
  const size: number = thing.spec.size;
  const port: number | string | undefined = thing.spec.port;
  const letter: 'a' | "b'" | undefined = thing.spec.letter;
  const name: string | undefined = thing.spec.list?.[0]?.name;
  const label: string | undefined = thing.spec.labels?.app;
  const kind: string | undefined = thing.spec.template?.kind;
  const nothing: string | null | undefined = thing.spec.nothing;
  // @ts-expect-error There is no such field.
  thing.spec.colour;
  // @ts-expect-error Objects of a cache are not changed.
  thing.spec.size = 2;
  // @ts-expect-error A required field is missing.
  await client.apply(Thing, { metadata, spec: {} });
  await client.apply(Thing, { metadata, spec: { size: 1, any: [1, { a: null }], open: { known: true, other: 1 } } });
  owns(Thing, Thing);
  controllerReference(Thing, thing);
  return { size, port, letter, name, label, kind, nothing };
}
`;

describe('the module of a kind', () => {
  test('has types for each form of a schema, which the client uses', async () => {
    const things = await moduleOf(schema);
    expect(things).toContain('How big.');
    expect(await typeErrors({ 'things.ts': things, 'use.ts': use })).toBe('');
  });

  test('accepts any field without a schema', async () => {
    const code = (n: number) => `import { Thing } from './things-${n}.ts';
      export const fieldOf = (thing: Thing): unknown => thing.spec;`;
    const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    const [first, second] = [await moduleOf(undefined), await moduleOf(open)];
    const files = { 'things-0.ts': first, 'use-0.ts': code(0), 'things-1.ts': second, 'use-1.ts': code(1) };
    expect(await typeErrors(files)).toBe('');
  });

  test('contains nothing that a hostile schema says as code, and fetches nothing', async () => {
    const attack = "*/ throw new Error('attack'); /*";
    const hostile = {
      type: 'object',
      description: attack,
      title: attack,
      properties: {
        [attack]: { type: 'string', description: attack, tsType: attack },
        'quote \' " ` ${attack} \n\u2028': { type: 'string' },
        '[k: string]': { type: 'string' },
        __proto__: { type: 'string' },
        far: { $ref: 'http://127.0.0.1:1/schema', $id: attack, title: attack, definitions: { [attack]: {} } },
        literal: { enum: [attack, "'", '`', '\\'], tsEnumNames: [attack] },
      },
    };
    const source = await moduleOf(hostile);
    expect(await typeErrors({ 'things.ts': source })).toBe('');
    const { stripTypeScriptTypes } = await import('node:module');
    // What remains without types and comments is the one value.
    const code = stripTypeScriptTypes(source)
      .replaceAll(/\/\*[\s\S]*?\*\//g, '')
      .replaceAll(/\s+/g, ' ');
    expect(code).not.toContain('attack');
  });

  test('has short comments', async () => {
    const long = { type: 'object', properties: { a: { type: 'string', description: 'word '.repeat(20_000) } } };
    expect((await moduleOf(long)).length).toBeLessThan(2000);
  });

  test.each([
    [{ kind: "A'" }, /the kind of a CustomResourceDefinition is "A'"/],
    [{ group: '*/' }, /the group of a CustomResourceDefinition is/],
  ])('is refused for the names %j', (names, message) => {
    expect(() => kindOf(definition(schema, names))).toThrow(message);
  });

  test('is of the stored version, or of one that is served', () => {
    expect(kindOf(definition(schema)).version).toBe('v1');
    expect(kindOf(definition(schema), 'v1beta1').version).toBe('v1beta1');
    expect(() => kindOf(definition(schema), 'v1alpha1')).toThrow(
      'things.example.com serves no version v1alpha1: it serves v1beta1, v1',
    );
  });

  test('is refused if two kinds have one name', async () => {
    const both = [kindOf(definition(schema)), kindOf(definition(schema, { group: 'other.example' }))];
    await expect(kindsModule(both)).rejects.toThrow('are both called Thing');
  });
});

test('definitions are found among other objects', () => {
  const text = `kind: Namespace\n---\n${JSON.stringify({ kind: 'List', items: [definition(schema)] })}\n---\n`;
  expect(readDefinitions(text, 'a.yaml')).toHaveLength(1);
  expect(() => readDefinitions('kind: Namespace', 'a.yaml')).toThrow('a.yaml has no CustomResourceDefinition');
  expect(() => readDefinitions('a: [', 'a.yaml')).toThrow('a.yaml is not YAML');
});

describe('echoperator-cli kinds', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'echoperator-kinds-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function run(...args: readonly string[]) {
    const lines: string[] = [];
    const output = { out: (line: string) => void lines.push(line), error: (line: string) => void lines.push(line) };
    return { code: await runCommand(['kinds', ...args], output), text: lines.join('\n') };
  }

  test('writes the module of the chosen kinds', async () => {
    const [file, out] = [join(folder, 'crd.yaml'), join(folder, 'things.ts')];
    await writeFile(file, JSON.stringify(definition(schema)));
    expect(await run('--crd', file, '--name', 'things.example.com', '--out', out)).toMatchObject({ code: 0 });
    expect(await readFile(out, 'utf8')).toBe(await moduleOf(schema));
    expect(await run('--crd', file, '--name', 'others.example.com', '--out', out)).toEqual({
      code: 1,
      text: 'there is no CustomResourceDefinition others.example.com',
    });
  });

  test('needs either files or a context, and a place for the module', async () => {
    expect((await run('--out', 'a.ts')).code).toBe(2);
    expect((await run('--crd', 'a', '--context', 'b', '--out', 'a.ts')).code).toBe(2);
    expect((await run('--crd', 'a')).code).toBe(2);
  });
});
