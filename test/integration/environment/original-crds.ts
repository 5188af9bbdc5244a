import type { Manifest } from '@echoperator/runtime';
import type { CustomResourceDefinition } from '@echoperator/runtime/kinds';

const text = { type: 'string' };
const integer = { type: 'integer' };

type Fields = Readonly<Record<string, object>>;

/** A definition as the tutorials have it: the types of the fields, and hardly a bound. */
function originalCrd(
  [group, version, kind, plural]: readonly [string, string, string, string],
  spec: Fields,
  { status, shortNames = [] }: { readonly status?: Fields | undefined; readonly shortNames?: string[] } = {},
): Manifest<CustomResourceDefinition> {
  const object = (properties: Fields, required: readonly string[] = []) => ({
    type: 'object',
    properties,
    ...(required.length > 0 && { required: [...required] }),
  });
  const singular = kind.toLowerCase();
  return {
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind, listKind: `${kind}List`, plural, singular, ...(shortNames.length > 0 && { shortNames }) },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          ...(status !== undefined && { subresources: { status: {} } }),
          schema: {
            openAPIV3Schema: object({
              spec: object(spec, Object.keys(spec)),
              ...(status !== undefined && { status: object(status) }),
            }),
          },
        },
      ],
    },
  };
}

/** The tutorial's definition of Echo: only a message, without a status subresource. */
export const originalEchoCrd = originalCrd(
  ['mmontes.io', 'v1alpha1', 'Echo', 'echos'],
  { message: text },
  { shortNames: ['ec'] },
);

const image = { repository: text, tag: text, imagePullPolicy: text, replicas: integer, port: integer };
const part = (properties: Fields) => ({ type: 'object', properties });

/** The definitions of all five tutorials. */
export const originalCrds: readonly Manifest<CustomResourceDefinition>[] = [
  originalEchoCrd,
  originalCrd(['mmontes.io', 'v1alpha1', 'ScheduledEcho', 'scheduledechos'], { message: text, schedule: text }),
  originalCrd(
    ['app.example.com', 'v1alpha1', 'PodSet', 'podsets'],
    { replicas: integer },
    { status: { replicas: integer, podNames: { type: 'array', items: text } } },
  ),
  originalCrd(
    ['blog.velotio.com', 'v1alpha1', 'BookStore', 'bookstores'],
    {
      bookApp: part({ ...image, targetPort: integer, serviceType: text }),
      bookDB: part({ ...image, dbSize: { 'x-kubernetes-int-or-string': true } }),
    },
    { status: {} },
  ),
  originalCrd(
    ['demo.yash.com', 'v1', 'PostgresWriter', 'postgreswriters'],
    { table: text, name: text, age: integer, country: text },
    { status: {} },
  ),
  originalCrd(
    ['petstore.example.com', 'v1alpha1', 'Pet', 'pets'],
    { name: text, type: text, birthday: { type: 'string', format: 'date-time' } },
    { status: { id: text } },
  ),
];
