import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Kind, KubeObject, Manifest } from '@echoperator/runtime';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { kindOf, readDefinitions } from '../../packages/cli/src/import-kinds/definitions.ts';
import { kindsModule } from '../../packages/cli/src/import-kinds/kinds-module.ts';
import { eventually } from '../../testkit/eventually.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { goModuleFolders } from '../../tools/generate/go-modules.ts';
import { typeErrors } from '../unit/environment/type-check.ts';

interface Foreign {
  readonly module: string;
  readonly file: string;
  readonly kind: string;
  /** Code that the compiler must accept: the spec of an object. */
  readonly spec: string;
}

const foreign: readonly Foreign[] = [
  {
    module: 'github.com/cert-manager/cert-manager@v1.21.2',
    file: 'deploy/crds/cert-manager.io_certificates.yaml',
    kind: 'Certificate',
    spec: "{ secretName: 'tls', dnsNames: ['example.com'], issuerRef: { name: 'ca', kind: 'Issuer' } }",
  },
  {
    module: 'sigs.k8s.io/gateway-api@v1.4.0',
    file: 'config/crd/standard/gateway.networking.k8s.io_gateways.yaml',
    kind: 'Gateway',
    spec: "{ gatewayClassName: 'a', listeners: [{ name: 'http', port: 80, protocol: 'HTTP' }] }",
  },
  {
    module: 'github.com/argoproj/argo-cd/v3@v3.1.0',
    file: 'manifests/crds/application-crd.yaml',
    kind: 'Application',
    spec: "{ project: 'default', destination: { namespace: 'a' }, source: { repoURL: 'https://example.com', path: 'a' } }",
  },
];

let cluster: TestCluster;
let folder: string;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  // Inside the repository, so that the imports are found.
  folder = await mkdtemp(join(import.meta.dirname, '.imported-'));
});
afterAll(async () => {
  await cluster?.close();
  await rm(folder, { recursive: true, force: true });
});

test.each(foreign)(
  '$kind of $module is imported, type-checks, and is applied',
  async ({ module, file, kind, spec }) => {
    const { [module]: source = '' } = await goModuleFolders([module]);
    const [definition] = readDefinitions(await readFile(join(source, file), 'utf8'), file);
    if (definition === undefined) throw new Error(`${file} is empty`);
    const generated = await kindsModule([kindOf(definition)]);
    const use = `import type { Manifest, ObjectOf } from '@echoperator/runtime';
    import { ${kind} } from './kinds.ts';
    export const manifest: Manifest<ObjectOf<typeof ${kind}>> = { metadata: { name: 'a', namespace: '' }, spec: ${spec} };
    // @ts-expect-error There is no such field.
    export const wrong: Manifest<ObjectOf<typeof ${kind}>> = { metadata: { name: 'a' }, spec: { noSuchField: 1 } };`;
    expect(await typeErrors({ 'kinds.ts': generated, 'use.ts': use })).toBe('');

    const { client } = cluster;
    const { metadata } = await client.create(
      CustomResourceDefinition,
      definition as Manifest<CustomResourceDefinition>,
    );
    try {
      const path = join(folder, `${kind}.ts`);
      await writeFile(path, generated);
      const manifestPath = join(folder, `${kind}-manifest.ts`);
      await writeFile(manifestPath, use.replace('./kinds.ts', `./${kind}.ts`));
      const { [kind]: imported }: Record<string, Kind> = await import(path);
      const { manifest }: { manifest: Manifest<KubeObject> } = await import(manifestPath);
      if (imported === undefined) throw new Error(`no ${kind}`);
      const namespace = await cluster.namespace();
      const object = { ...manifest, metadata: { name: 'a', namespace } };
      await eventually('the kind is served', () => client.list(imported).then(() => true));
      const applied = await client.apply(imported, object);
      expect(applied).toMatchObject({ kind, spec: (manifest as { spec?: unknown }).spec });
      expect((await client.list(imported, { namespace })).items).toEqual([applied]);
    } finally {
      await client.delete(CustomResourceDefinition, metadata);
    }
  },
);
