import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';

import { controllers, kinds } from '../../src/operator.ts';
import { customResourceDefinition } from '../../src/runtime/index.ts';

const root = join(import.meta.dirname, '../..');
const textOf = (path: string): Promise<string> => readFile(join(root, path), 'utf8');

test('each CRD has the short name that users type', () => {
  const shortNames = kinds.map((kind) => [kind.kind, customResourceDefinition(kind).spec.names.shortNames]);
  expect(Object.fromEntries(shortNames)).toEqual({
    Echo: ['ec'],
    ScheduledEcho: ['sec'],
    PodSet: ['pset'],
    BookStore: ['bs'],
    PostgresWriter: ['pgw'],
    Pet: ['pt'],
  });
});

describe.each(kinds.map((kind) => [kind.kind, kind] as const))('the kind %s', (name, { group, kind }) => {
  const controller = `${name[0]?.toLowerCase()}${name.slice(1)}`;

  test('has a switch in the chart, rights for its users, and an example', async () => {
    const values = parse(await textOf('charts/echoperator/values.yaml'));
    expect(values.controllers[controller]).toHaveProperty('enabled');
    const schema = JSON.parse(await textOf('charts/echoperator/values.schema.json'));
    expect(schema.properties.controllers.properties).toHaveProperty(controller);
    expect(values.rbac.aggregate).toHaveProperty(controller);
    expect(schema.properties.rbac.properties.aggregate.properties).toHaveProperty(controller);
    const examples = await Promise.all(
      (await readdir(join(root, 'examples')))
        .filter((file) => file.endsWith('.yaml'))
        .map((file) => textOf(`examples/${file}`)),
    );
    expect(examples.join('\n')).toMatch(new RegExp(`^kind: ${kind}$`, 'm'));
  });

  test('is named in the README with a link, and has a health check for Argo CD', async () => {
    const page = `${name[0]?.toLowerCase()}${name.slice(1).replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}.md`;
    expect(await textOf('README.md')).toContain(`docs/${page}`);
    expect(await textOf('docs/install.md')).toContain(`${group}_${kind}`);
  });

  test.each([
    'SECURITY.md',
    'CHANGELOG.md',
    'charts/echoperator/README.md',
    'docs/index.md',
    'docs/concepts.md',
    'docs/troubleshooting.md',
  ])('is named in %s', async (page) => {
    expect(await textOf(page)).toMatch(new RegExp(`\\b${kind}\\b`));
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
