import type { CustomKind, Kind } from '@echoperator/runtime';
import { PersistentVolumeClaim } from '@echoperator/runtime/kinds';
import { collectionPath, objectPath } from '../../../packages/runtime/src/client/resource-path.ts';
import { isCustomKind } from '../../../packages/runtime/src/kind/define-kind.ts';
import { definitionOf } from '../../../src/commands/crds.ts';
import { BookStore } from '../../../src/kinds/book-store/kind.ts';
import { controllers } from '../../../src/operator.ts';
import { childExamples } from './child-examples.ts';
import type { RawRequests } from './raw-requests.ts';
import { type BoundedSchema, type WorstObject, worstObjects } from './worst-values.ts';

/** An object that gives one property its worst value. */
export interface HostileObject extends WorstObject {
  readonly kind: Kind;
}

/** Stands for the name of the object, and the uid of its owner, in {@link WorstObject.json}. */
const nameStandIn = '@@name@@';
const ownerStandIn = '@@owner@@';

/** The kinds that the operator caches, by the permissions of its controllers. */
export const cachedKinds = (): readonly Kind[] => {
  const watched = new Set(
    Object.values(controllers).flatMap(({ permissions }) =>
      permissions
        .filter(({ verbs }) => verbs.includes('watch'))
        .flatMap(({ apiGroups, resources }) =>
          apiGroups.flatMap((group) => resources.map((each) => `${each}.${group}`)),
        ),
    ),
  );
  return childExamples.map(({ kind }) => kind).filter(({ plural, group }) => watched.has(`${plural}.${group}`));
};

const apiVersionOf = ({ group, version }: Kind): string => (group === '' ? version : `${group}/${version}`);

function contentOf(kind: Kind): object {
  const content = childExamples.find((example) => example.kind === kind)?.content ?? {};
  if (kind !== BookStore) return content;
  // Two BookStores of a namespace cannot have the same Services: the second would get no Deployment.
  const { spec } = content as { readonly spec: { readonly bookApp: object; readonly bookDB: object } };
  const bookApp = { ...spec.bookApp, serviceName: `${nameStandIn}-app-service` };
  return { spec: { bookApp, bookDB: { ...spec.bookDB, serviceName: `${nameStandIn}-db-service` } } };
}

/** A valid object. */
const baseOf = (kind: Kind, namespace: string) => {
  const owner = ownerOf(kind);
  const reference = owner && {
    apiVersion: apiVersionOf(owner),
    kind: owner.kind,
    name: 'owner',
    uid: ownerStandIn,
    controller: true,
  };
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: { name: nameStandIn, namespace, ...(reference && { ownerReferences: [reference] }) },
    ...contentOf(kind),
  };
};

type OpenApi = Readonly<
  Record<string, BoundedSchema & { readonly $ref?: string; readonly allOf?: readonly { readonly $ref?: string }[] }>
>;

/** Returns a copy of a schema without references. */
function resolved(schemas: OpenApi, schema: OpenApi[string], parents: readonly string[] = []): BoundedSchema {
  const { $ref, allOf, ...rest } = schema;
  const reference = $ref ?? allOf?.[0]?.$ref;
  if (reference !== undefined) {
    const name = reference.split('/').at(-1) ?? '';
    const target = schemas[name];
    // Time and IntOrString are texts, Quantity is one or a number.
    return target === undefined || parents.includes(name) ? {} : resolved(schemas, target, [...parents, name]);
  }
  const { properties, items, additionalProperties } = rest;
  return {
    ...rest,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, each]) => [name, resolved(schemas, each, parents)]),
      ),
    }),
    ...(items && { items: resolved(schemas, items, parents) }),
    ...(additionalProperties && { additionalProperties: resolved(schemas, additionalProperties, parents) }),
  };
}

async function openApi(raw: RawRequests, path: string): Promise<OpenApi> {
  const { text } = await raw.send('GET', `/openapi/v3/${path}`);
  return JSON.parse(text).components.schemas;
}

/** The schemas of kinds on an API server. */
export class Schemas {
  readonly #raw: RawRequests;
  readonly #metadata: BoundedSchema;

  private constructor(raw: RawRequests, metadata: BoundedSchema) {
    this.#raw = raw;
    this.#metadata = metadata;
  }

  static async read(raw: RawRequests): Promise<Schemas> {
    const schemas = await openApi(raw, 'api/v1');
    const metadata = schemas['io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'];
    if (metadata === undefined) throw new Error('the API server has no schema of ObjectMeta');
    return new Schemas(raw, resolved(schemas, metadata));
  }

  /** @param change of the definitions of our kinds that are installed */
  async of(kind: Kind, change: <T>(schema: T) => T): Promise<BoundedSchema> {
    const { spec, status } = isCustomKind(kind) ? ownSchema(kind, change) : await this.#builtIn(kind);
    return {
      type: 'object',
      properties: { metadata: this.#metadata, ...(spec && { spec }), ...(status && { status }) },
    };
  }

  async #builtIn(kind: Kind): Promise<Readonly<Record<string, BoundedSchema>>> {
    const { group, version } = kind;
    const schemas = await openApi(this.#raw, group === '' ? `api/${version}` : `apis/${group}/${version}`);
    const found = Object.entries(schemas).find(([name]) => name.endsWith(`.${version}.${kind.kind}`));
    if (found === undefined) throw new Error(`the API server has no schema of ${kind.kind}`);
    return resolved(schemas, found[1]).properties ?? {};
  }
}

function ownSchema(kind: CustomKind, change: <T>(schema: T) => T): Readonly<Record<string, BoundedSchema>> {
  const [version] = definitionOf(kind, 'dev').spec.versions;
  return change(version?.schema?.openAPIV3Schema?.properties ?? {}) as Readonly<Record<string, BoundedSchema>>;
}

/** Returns an object for each property of a kind and each of its worst values. */
export async function hostileObjects(
  schemas: Schemas,
  kind: Kind,
  namespace: string,
  change: <T>(schema: T) => T = (schema) => schema,
): Promise<readonly HostileObject[]> {
  const schema = await schemas.of(kind, change);
  return worstObjects(schema, baseOf(kind, namespace)).map((worst) => ({ kind, ...worst }));
}

/** Words, as many as an object with a worst value has. */
const words = Array.from({ length: 32 }, () => 'a condition of ordinary words. '.repeat(1000));

/** Where kinds without a status have texts. */
const mapsOfTexts: Readonly<Record<string, string>> = { ConfigMap: 'data', Secret: 'stringData' };

/** An object of about a megabyte that costs nobody much. */
export function harmlessObject(kind: Kind, namespace: string): HostileObject {
  const base = baseOf(kind, namespace);
  const texts = mapsOfTexts[kind.kind];
  if (texts !== undefined) {
    const big = { ...base, [texts]: { ...words } };
    return { kind, property: texts, value: 'words', json: JSON.stringify(big) };
  }
  const conditions = words.map((message, index) => ({
    type: `Type${index}`,
    status: 'True',
    reason: 'Words',
    message,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  }));
  const big = { ...base, status: { conditions } };
  if (kind.kind !== 'CronJob')
    return { kind, property: 'status.conditions', value: 'words', json: JSON.stringify(big) };
  const cronJob = structuredClone(base) as unknown as {
    spec: { jobTemplate: { spec: { template: { spec: { containers: { args: string[] }[] } } } } };
  };
  for (const container of cronJob.spec.jobTemplate.spec.template.spec.containers) container.args = words;
  return { kind, property: 'spec.….args', value: 'words', json: JSON.stringify(cronJob) };
}

/** A small valid object. */
export const smallObject = (kind: Kind, namespace: string): HostileObject => ({
  kind,
  property: '',
  value: 'small',
  json: JSON.stringify(baseOf(kind, namespace)),
});

/** Options of {@link store}. */
export interface StoreOptions {
  readonly namespace: string;
  readonly name: string;
  /** The uid of the object that controls it. */
  readonly owner: string;
  /** Stores nothing. */
  readonly isDryRun?: boolean;
}

/**
 * Creates the object, and writes its status if its worst value is there.
 *
 * @returns what the API server has against it; undefined if it is stored
 */
export async function store(
  raw: RawRequests,
  { kind, property, json }: HostileObject,
  { namespace, name, owner, isDryRun = false }: StoreOptions,
): Promise<string | undefined> {
  const body = json.replaceAll(nameStandIn, name).replaceAll(ownerStandIn, owner);
  const created = await raw.send('POST', `${collectionPath(kind, namespace)}${isDryRun ? '?dryRun=All' : ''}`, body);
  if (created.code >= 300) return created.text;
  if (!property.startsWith('status')) return undefined;
  const patched = await raw.send('PATCH', objectPath(kind, { name, namespace }, 'status'), body);
  return patched.code >= 300 ? patched.text : undefined;
}

/**
 * The kind whose objects control those of a kind, by {@link store}. The operator keeps only the metadata of some
 * objects that nobody controls. The claims of a BookStore belong to its StatefulSet.
 */
export const ownerOf = (kind: Kind): Kind | undefined =>
  kind === PersistentVolumeClaim
    ? controllers.bookStore.kind
    : Object.values(controllers).find(({ children }) => children.includes(kind))?.kind;
