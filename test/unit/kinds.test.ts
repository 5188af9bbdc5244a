import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { customResourceDefinition } from '@echoperator/runtime';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { type ControllerName, controllerNames, kindEntries } from '../../src/kinds.ts';
import { controllers, kinds } from '../../src/operator.ts';
import { exampleOf, fileNameOf, pageOf } from '../../tools/generate/file-names.ts';
import { withoutAggregation, withSwitches } from '../../tools/generate/generate-values.ts';
import { kindPlans } from '../plans/index.ts';

const root = join(import.meta.dirname, '../..');
const textOf = (path: string): Promise<string> => readFile(join(root, path), 'utf8');

test('each kind has a short name of its own', () => {
  const shortNames = kinds.map((kind) => customResourceDefinition(kind).spec.names.shortNames ?? []);
  expect(shortNames.filter((names) => names.length === 0)).toEqual([]);
  expect(new Set(shortNames.flat()).size).toBe(shortNames.flat().length);
});

interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
}

/** The paths of the fields of a schema that have no description. */
function undescribed({ properties = {}, items = {}, additionalProperties = {} }: Schema, path = ''): readonly string[] {
  const own = Object.entries(properties).flatMap(([name, field]) => [
    ...(field.description ? [] : [`${path}.${name}`]),
    ...undescribed(field, `${path}.${name}`),
  ]);
  const deeper = [items, additionalProperties].flatMap((each) => (each.properties ? undescribed(each, path) : []));
  return [...own, ...deeper];
}

// Adding a kind: CONTRIBUTING.md.
describe.each(controllerNames)('the kind of the controller %s', (name) => {
  const { kind } = controllers[name].kind;

  test('has the name of its controller, with an upper-case first letter', () => {
    expect(kind).toBe(`${name[0]?.toUpperCase()}${name.slice(1)}`);
  });

  test('has an example of the kind on its page, whose commands apply it', async () => {
    expect(await textOf(exampleOf(name))).toMatch(new RegExp(`^kind: ${kind}$`, 'm'));
    expect(await textOf(pageOf(name))).toContain(`kubectl apply --filename ${exampleOf(name)}`);
  });

  test('describes itself and each field, for kubectl explain', () => {
    const [version] = customResourceDefinition(controllers[name].kind).spec.versions;
    const { description, properties = {} } = version?.schema?.openAPIV3Schema ?? {};
    expect(description).toMatch(new RegExp(`\\b${kind}\\b`));
    const { spec, status } = properties as Readonly<Record<string, Schema>>;
    expect(undescribed({ properties: { ...(spec && { spec }), ...(status && { status }) } })).toEqual([]);
  });

  test('has plans of its own: a subject, scenarios that also delete the object, and seeded bugs', async () => {
    const { subject, scenarios, externalScenarios, bugs } = kindPlans[name];
    expect(subject({ rows: async () => [], pets: async () => [] }).kind).toBe(controllers[name].kind);
    expect(scenarios ?? externalScenarios).toBeDefined();
    const text = await textOf(`test/plans/${fileNameOf(name)}.ts`);
    expect(text).toMatch(new RegExp(`(client\\.delete|remove)\\(${kind}\\b`));
    expect(bugs.length).toBeGreaterThan(0);
    for (const bug of bugs) expect(bug.name.startsWith(`${kind}: `)).toBe(true);
  });

  test('has the sections of every page, and the changelog names it', async () => {
    const text = await textOf(pageOf(name));
    for (const section of ['Spec', 'Security', 'Troubleshooting']) expect(text).toContain(`\n## ${section}\n`);
    expect(await textOf('CHANGELOG.md')).toMatch(new RegExp(`\\b${kind}\\b`));
  });
});

test('the list decides which switches and rights are on in the values, and a new kind needs no edit of them', () => {
  const values = `controllers:
  removed:
    enabled: true
  echo:
    # Prints.
    enabled: false
rbac:
  # Who may.
  aggregate:
    removed: true
`;
  const { controllers: switches, rbac } = parse(withSwitches(values));
  const byDefault = (name: ControllerName): boolean => kindEntries[name].runsByDefault ?? false;
  expect(switches).toEqual(Object.fromEntries(controllerNames.map((name) => [name, { enabled: byDefault(name) }])));
  expect(rbac.aggregate).toMatchObject({ echo: true, podSet: true, pet: false, postgresWriter: false });
  expect(Object.keys(rbac.aggregate)).toEqual(controllerNames);
  const text = withSwitches(values);
  expect(text).toContain('  echo:\n    # Prints.\n    enabled: true\n');
  expect(text).toContain('  podSet:\n    # Runs the PodSet controller.\n    enabled: false\n');
  const hardened = parse(withoutAggregation(values));
  expect(hardened.rbac.aggregate).toEqual(Object.fromEntries(controllerNames.map((name) => [name, false])));
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
