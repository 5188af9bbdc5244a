import { type CustomKind, customResourceDefinition, defineKind } from '@echoperator/runtime';
import { expect, test } from '@jest/globals';
import Type from 'typebox';
import { NotStructuralError } from '../../../../packages/runtime/src/kind/structural-schema.ts';

const definition = {
  group: 'test.example',
  version: 'v1beta1',
  kind: 'PetShop',
  plural: 'petshops',
  description: 'PetShop sells.',
  spec: Type.Object({ city: Type.String() }),
  status: Type.Object({}),
  printerColumns: [
    { name: 'City', type: 'string', jsonPath: '.spec.city' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp', priority: 1 },
  ],
} as const;

test('has names, scope and columns in the fields of the API', () => {
  const crd = customResourceDefinition(
    defineKind({ ...definition, shortNames: ['ps'], categories: ['all'], singular: 'shop', scope: 'Cluster' }),
  );
  expect(crd).toMatchObject({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'petshops.test.example' },
    spec: {
      group: 'test.example',
      scope: 'Cluster',
      names: {
        kind: 'PetShop',
        listKind: 'PetShopList',
        plural: 'petshops',
        singular: 'shop',
        shortNames: ['ps'],
        categories: ['all'],
      },
      versions: [
        {
          name: 'v1beta1',
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: definition.printerColumns,
          schema: { openAPIV3Schema: { type: 'object', description: 'PetShop sells.', required: ['spec'] } },
        },
      ],
    },
  });
});

test('omits optional fields or derives them from the kind', () => {
  const { names } = customResourceDefinition(defineKind(definition)).spec ?? {};
  expect(names).toEqual({ kind: 'PetShop', listKind: 'PetShopList', plural: 'petshops', singular: 'petshop' });
});

test('has the CEL rules of the whole object at the root, where the name can be read', () => {
  const rule = { rule: 'self.metadata.name.size() <= 63', message: 'metadata.name: at most 63 characters' };
  const root = (kind: CustomKind) => customResourceDefinition(kind).spec?.versions[0]?.schema?.openAPIV3Schema;
  expect(root(defineKind({ ...definition, validations: [rule] }))).toMatchObject({
    'x-kubernetes-validations': [rule],
  });
  expect(root(defineKind(definition))).not.toHaveProperty('x-kubernetes-validations');
});

test('is plain JSON', () => {
  const crd = customResourceDefinition(defineKind(definition));
  expect(JSON.parse(JSON.stringify(crd))).toEqual(crd);
});

test('refuses a schema without a structural form, with its path', () => {
  const inSpec = defineKind({ ...definition, spec: Type.Object({ any: Type.Any() }) });
  expect(() => customResourceDefinition(inSpec)).toThrow(NotStructuralError);
  expect(() => customResourceDefinition(inSpec)).toThrow('schema at spec.any: ');
  const inStatus = defineKind({ ...definition, status: Type.Object({ list: Type.Array(Type.Any()) }) });
  expect(() => customResourceDefinition(inStatus)).toThrow('schema at status.list[]: ');
});
