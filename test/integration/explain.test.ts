import type { Kind } from '@echoperator/runtime';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { kinds } from '../../src/operator.ts';
import { eventually } from '../../testkit/eventually.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';

let cluster: TestCluster;
let program: string;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  program = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
});

afterAll(() => cluster?.close());

const kubectl = async (...args: readonly string[]): Promise<string> =>
  (await execa(program, args, { env: { KUBECONFIG: cluster.kubeconfig } })).stdout;

/** The API server's description of a type. */
interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
}

/** The paths of the fields below that say nothing of themselves. */
function silent(path: string, { properties = {}, items, additionalProperties }: Schema): readonly string[] {
  const deeper = [items, additionalProperties].flatMap((each) => (each === undefined ? [] : silent(path, each)));
  const own = Object.entries(properties).flatMap(([name, field]) => [
    ...(field.description ? [] : [`${path}.${name}`]),
    ...silent(`${path}.${name}`, field),
  ]);
  return [...own, ...deeper];
}

async function schemaOf({ group, version, kind }: Kind): Promise<Schema> {
  const path = `/openapi/v3/apis/${group}/${version}`;
  const { components } = JSON.parse(await kubectl('get', '--raw', path));
  const schemas: readonly (Schema & { readonly 'x-kubernetes-group-version-kind'?: readonly { kind: string }[] })[] =
    Object.values(components.schemas);
  const found = schemas.find((schema) => schema['x-kubernetes-group-version-kind']?.some((type) => type.kind === kind));
  if (found === undefined) throw new Error(`${path} has no ${kind}`);
  return found;
}

describe.each(kinds.map((kind) => [kind.kind, kind] as const))('kubectl explain of %s', (name, kind) => {
  const { plural, group } = kind;
  const explain = (...path: readonly string[]) =>
    // The API server tells of a new kind a moment after it serves it.
    eventually(`${name} is explained`, () => kubectl('explain', [`${plural}.${group}`, ...path].join('.')));

  test('describes the kind and each field of its spec and status', async () => {
    const overview = await explain();
    expect(overview).toContain(`KIND:       ${name}`);
    expect(overview).toMatch(new RegExp(`DESCRIPTION:\\n +.*\\b${name}\\b`));
    const { properties = {} } = await schemaOf(kind);
    for (const part of ['spec', 'status']) {
      const schema = properties[part];
      if (schema === undefined) throw new Error(`no ${part}`);
      expect(schema.description).toMatch(/\.$/);
      expect(silent(part, schema)).toEqual([]);
      const explained = await explain(part);
      expect(explained).not.toMatch(/<no description>|<empty>/);
      for (const field of Object.keys(schema.properties ?? {})) expect(explained).toContain(`  ${field}\t`);
    }
  });
});
