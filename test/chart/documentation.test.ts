import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { documentedValues } from '../../tools/generate/values-table.ts';
import { chart, Helm } from './helm.ts';

/** The parts of a JSON Schema that are needed to find a key. */
interface Schema {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly definitions?: Readonly<Record<string, Schema>>;
}

const readValues = (): Promise<string> => readFile(join(chart, 'values.yaml'), 'utf8');
const readReadme = (): Promise<string> => readFile(join(chart, 'README.md'), 'utf8');

const schema: Schema = JSON.parse(await readFile(join(chart, 'values.schema.json'), 'utf8'));
const resolve = (part: Schema): Schema => {
  const name = part.$ref?.replace('#/definitions/', '');
  return name === undefined ? part : schema.definitions![name]!;
};

const keysOf = (part: Schema, prefix = ''): readonly string[] =>
  Object.entries(part.properties ?? {}).flatMap(([key, value]) => {
    const path = `${prefix}${key}`;
    return [path, ...keysOf(resolve(value), `${path}.`)];
  });

describe('every value', () => {
  it('is in the schema', async () => {
    const known = keysOf(schema);
    const missing = documentedValues(await readValues()).filter(({ path }) => !known.includes(path));
    expect(missing).toEqual([]);
  });

  it('of the schema is in values.yaml, or is part of a value that is', async () => {
    const documented = documentedValues(await readValues()).map(({ path }) => path);
    const forParentCharts = ['global', 'enabled'];
    const unknown = keysOf(schema).filter(
      (key) =>
        !forParentCharts.includes(key) &&
        !documented.some((path) => path === key || path.startsWith(`${key}.`) || key.startsWith(`${path}.`)),
    );
    expect(unknown).toEqual([]);
  });
});

it('the README lists every ServiceAccount that needs a role with rbac.create=false', async () => {
  const listed = [...(await readReadme()).matchAll(/^\| FULLNAME(?:`(-[a-z-]+)`)?[ ,]/gm)].map(
    ([, suffix = '']) => suffix,
  );
  const values = { rbac: { create: false }, crds: { keep: false } };
  const rendering = await (await Helm.find('helm4')).render({ values });
  const accounts = rendering.all('ServiceAccount').map(({ metadata }) => metadata?.name);
  expect(listed.map((suffix) => `demo-echoperator${suffix}`).sort()).toEqual(accounts.sort());
});

describe('the table of values', () => {
  it('treats a map with a comment as a value, and a map without one as a group', () => {
    const text = '# About the file.\n\n# First.\na: 1\n\nb:\n  # Of\n  # two lines.\n  c: x\n# Whole.\nd:\n  e: 1\n';
    expect(documentedValues(text)).toEqual([
      { path: 'a', default: 1, description: 'First.' },
      { path: 'b.c', default: 'x', description: 'Of two lines.' },
      { path: 'd', default: { e: 1 }, description: 'Whole.' },
    ]);
  });

  it('rejects a value without a comment and names it', () => {
    expect(() => documentedValues('# First.\na: 1\nb:\n  # Second.\n  c: 1\n  d: 2\n')).toThrow('b.d has no comment');
  });
});

describe('versions', () => {
  it('of the package, the chart and the image are the same', async () => {
    const { version, appVersion } = parse(await readFile(join(chart, 'Chart.yaml'), 'utf8'));
    const manifest = JSON.parse(await readFile(join(chart, '../../package.json'), 'utf8'));
    expect({ version, appVersion }).toEqual({ version: manifest.version, appVersion: manifest.version });
  });

  it('of Kubernetes that the chart names are those that the tests run', async () => {
    const { kubeVersion, annotations } = parse(await readFile(join(chart, 'Chart.yaml'), 'utf8'));
    const tested = async (group: string): Promise<string | undefined> => {
      const modules = await readFile(join(chart, `../../tools/programs/${group}/go.mod`), 'utf8');
      return /k8s\.io\/kubernetes v(\d+\.\d+)\./.exec(modules)?.[1];
    };
    const [oldest, newest] = [await tested('kubernetes-oldest'), await tested('kubernetes')];
    expect(kubeVersion).toBe(`>=${oldest}.0-0`);
    expect(annotations['echoperator.github.io/tested-kubernetes']).toBe(`${oldest}, ${newest}`);
  });
});
