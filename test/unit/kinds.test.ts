import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';

import { controllerNames, kindEntries } from '../../src/kinds.ts';
import { controllers, kinds } from '../../src/operator.ts';
import { customResourceDefinition } from '../../src/runtime/index.ts';
import { fileNameOf, pageOf } from '../../tools/generate/file-names.ts';

const root = join(import.meta.dirname, '../..');
const textOf = (path: string): Promise<string> => readFile(join(root, path), 'utf8');

test('each kind has a short name of its own', () => {
  const shortNames = kinds.map((kind) => customResourceDefinition(kind).spec.names.shortNames ?? []);
  expect(shortNames.filter((names) => names.length === 0)).toEqual([]);
  expect(new Set(shortNames.flat()).size).toBe(shortNames.flat().length);
});

// Adding a kind: CONTRIBUTING.md.
describe.each(controllerNames)('the kind of the controller %s', (name) => {
  const { kind } = controllers[name].kind;

  test('has the name of its controller, with an upper-case first letter', () => {
    expect(kind).toBe(`${name[0]?.toUpperCase()}${name.slice(1)}`);
  });

  test('has a switch and rights for its users in the chart', async () => {
    const values = parse(await textOf('charts/echoperator/values.yaml'));
    expect(values.controllers[name]).toEqual({ enabled: kindEntries[name].runsByDefault ?? false });
    expect(values.rbac.aggregate).toHaveProperty(name);
    const { properties } = JSON.parse(await textOf('charts/echoperator/values.schema.json'));
    expect(properties.controllers.properties).toHaveProperty(name);
    expect(properties.rbac.properties.aggregate.properties).toHaveProperty(name);
  });

  test('is off in the example of hardened values, and among the definitions that the README of the chart deletes', async () => {
    const { rbac } = parse(await textOf('examples/values/hardened.yaml'));
    expect(rbac.aggregate).toHaveProperty(name, false);
    const { plural, group } = controllers[name].kind;
    expect(await textOf('charts/echoperator/README.md')).toContain(`${plural}.${group}`);
  });

  test('has an example', async () => {
    const examples = await Promise.all(
      (await readdir(join(root, 'examples')))
        .filter((file) => file.endsWith('.yaml'))
        .map((file) => textOf(`examples/${file}`)),
    );
    expect(examples.join('\n')).toMatch(new RegExp(`^kind: ${kind}$`, 'm'));
  });

  test('has a scenario in which every write is perturbed', async () => {
    const scenarios = await textOf(`test/plans/${fileNameOf(name)}.ts`);
    expect(scenarios).toMatch(new RegExp(`(client\\.delete|remove)\\(${kind}\\b`));
  });

  test('has a page, which the README and the changelog name', async () => {
    const page = pageOf(name);
    const text = await textOf(page);
    for (const section of ['Spec', 'Security', 'Troubleshooting']) expect(text).toContain(`\n## ${section}\n`);
    expect(await textOf('README.md')).toContain(`[${kind}](${page})`);
    expect(await textOf('CHANGELOG.md')).toMatch(new RegExp(`\\b${kind}\\b`));
  });
});

test.each(Object.entries(controllers))(
  'the controller %s may read each object that it watches and writes',
  (_, { permissions }) => {
    const verbsOf = (resource: string): readonly string[] =>
      permissions.flatMap(({ resources, verbs }) => (resources.includes(resource) ? verbs : []));
    const resources = new Set(permissions.flatMap(({ resources }) => resources));
    // A write that is refused because the cache is stale is followed by a read.
    const written = [...resources].filter((resource) =>
      verbsOf(resource).some((verb) => verb === 'create' || verb === 'patch' || verb === 'update'),
    );
    const watched = written.filter((resource) => verbsOf(resource).includes('watch'));
    expect(watched.length).toBeGreaterThan(0);
    for (const resource of watched)
      expect([resource, verbsOf(resource)]).toEqual([resource, expect.arrayContaining(['get'])]);
  },
);
