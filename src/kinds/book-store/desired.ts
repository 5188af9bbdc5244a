import { keyOf, type ObjectKey } from '@echoperator/runtime';
import { childName, dotlessChildName, missingField } from '@echoperator/runtime/controller';
import type { Deployment } from '@echoperator/runtime/kinds';
import { type PodDefaults, resourcesOf } from '../shared/pod-defaults.ts';
import { type PodMetadata, podMetadataOf } from '../shared/pod-metadata.ts';
import { type BookStore, defaultAppServiceName, defaultDatabaseServiceName } from './kind.ts';

type PodSpec = NonNullable<NonNullable<Deployment['spec']>['template']['spec']>;
type Container = PodSpec['containers'][number];
type PodSecurityContext = PodSpec['securityContext'];

/** The fields of a container that the spec sets. */
export type ContainerSettings = Pick<Container, 'image' | 'imagePullPolicy' | 'env' | 'resources' | 'securityContext'>;

/** A BookStore's spec with its defaults. */
export interface SpecWithDefaults {
  readonly app: {
    readonly container: ContainerSettings;
    readonly podMetadata: PodMetadata | undefined;
    /** Undefined: the operator's default. */
    readonly podSecurityContext: PodSecurityContext | undefined;
    /** Undefined: somebody else sets the number in the Deployment, for example an autoscaler. */
    readonly replicas: number | undefined;
    readonly port: number;
    readonly targetPort: number;
    readonly serviceType: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
    readonly serviceName: string;
  };
  readonly database: {
    readonly container: ContainerSettings;
    readonly podMetadata: PodMetadata | undefined;
    /** Undefined: the operator's default. */
    readonly podSecurityContext: PodSecurityContext | undefined;
    readonly replicas: number;
    readonly port: number;
    /** A quantity. */
    readonly size: string;
    readonly serviceName: string;
    /** Undefined: the cluster's default. */
    readonly storageClassName: string | undefined;
    readonly dataPath: string;
    readonly resizeRestartAfterMs: number;
  };
}

export type DatabaseSpec = SpecWithDefaults['database'];

/** The spec of a BookStore with its defaults. It must have every required field: see {@link missingField}. */
export function specWithDefaultsOf(bookStore: BookStore): SpecWithDefaults {
  const { bookApp, bookDB } = bookStore.spec;
  const serviceNames = serviceNamesOf(bookStore);
  const { port = 80 } = bookApp;
  return {
    app: {
      container: containerOf(bookApp),
      podMetadata: bookApp.podMetadata,
      podSecurityContext: bookApp.podSecurityContext,
      replicas: bookApp.replicas,
      port,
      targetPort: bookApp.targetPort ?? port,
      serviceType: bookApp.serviceType ?? 'ClusterIP',
      serviceName: serviceNames.app,
    },
    database: {
      container: containerOf(bookDB),
      podMetadata: bookDB.podMetadata,
      podSecurityContext: bookDB.podSecurityContext,
      replicas: bookDB.replicas ?? 1,
      port: bookDB.port ?? 27_017,
      size: String(bookDB.dbSize),
      serviceName: serviceNames.database,
      storageClassName: bookDB.storageClassName,
      dataPath: bookDB.dataPath ?? '/data/db',
      resizeRestartAfterMs: durationMs(bookDB.resizeRestartAfter ?? '5m'),
    },
  };
}

type ImageSpec = BookStore['spec']['bookApp'] | BookStore['spec']['bookDB'];

function containerOf({
  repository,
  tag = 'latest',
  imagePullPolicy,
  env,
  resources,
  securityContext,
}: ImageSpec): ContainerSettings {
  return {
    image: `${repository}:${tag}`,
    imagePullPolicy: imagePullPolicy ?? 'IfNotPresent',
    ...(env && { env: env.map(withServerDefaults) }),
    ...(resources && { resources: resourcesOf(resources) }),
    ...(securityContext && { securityContext }),
  };
}

type Variable = NonNullable<ImageSpec['env']>[number];

/** These references are atomic: without the API server's defaults, each restart of the operator would cost an apply. */
function withServerDefaults({ valueFrom, ...variable }: Variable): NonNullable<Container['env']>[number] {
  if (valueFrom === undefined) return variable;
  const { fieldRef, resourceFieldRef } = valueFrom;
  const references = {
    ...valueFrom,
    ...(fieldRef && { fieldRef: { apiVersion: 'v1', ...fieldRef } }),
    ...(resourceFieldRef && { resourceFieldRef: { divisor: '0', ...resourceFieldRef } }),
  };
  return { ...variable, valueFrom: references };
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/**
 * Parses a duration in Go's syntax, such as `1h30m` or `2.5s`. Returns milliseconds.
 *
 * @throws RangeError for anything else. The kind's schema refuses it.
 */
export function durationMs(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  if (text === '' || parts.map(([part]) => part).join('') !== text) {
    throw new RangeError(`expected a duration such as 1h30m or 90s, got ${JSON.stringify(text)}`);
  }
  return parts.reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (unitMs[unit] ?? 0), 0);
}

/** The StatefulSet controller appends a revision hash to the name and uses the result as a label. */
const maxStatefulSetNameLength = 52;
/** The name of a pod begins with that of its Deployment and is also its host name. */
const maxDeploymentNameLength = 63;
const maxLabelLength = 63;

/** The name of the volume in the pod and in the claim template. The name of each claim begins with it. */
export const volumeName = 'data';

/**
 * The label of each claim that a BookStore's StatefulSet creates: the BookStore's uid. `reclaimPolicy: Delete` deletes
 * only claims with this label, which somebody may also have added by hand.
 */
export const bookStoreUidLabel = 'blog.velotio.com/book-store-uid';

/** The names of both Services, also of a spec whose other fields are invalid. */
const serviceNamesOf = ({ spec: { bookApp, bookDB } }: BookStore) => ({
  app: bookApp.serviceName ?? defaultAppServiceName,
  database: bookDB.serviceName ?? defaultDatabaseServiceName,
});

const inNamespace = ({ metadata }: BookStore, name: string): ObjectKey => ({ ...keyOf({ metadata }), name });

/** The key of the app's Deployment. */
export const deploymentKey = (bookStore: BookStore): ObjectKey =>
  inNamespace(bookStore, `${dotlessChildName(bookStore.metadata.name, maxDeploymentNameLength - '-app'.length)}-app`);

/** The key of the database's StatefulSet. */
export const statefulSetKey = (bookStore: BookStore): ObjectKey =>
  inNamespace(bookStore, `${dotlessChildName(bookStore.metadata.name, maxStatefulSetNameLength - '-db'.length)}-db`);

/** The key of the app's Service. */
export const appServiceKey = (bookStore: BookStore): ObjectKey => inNamespace(bookStore, serviceNamesOf(bookStore).app);

/** The key of the database's Service, to which the app connects. */
export const databaseServiceKey = (bookStore: BookStore): ObjectKey =>
  inNamespace(bookStore, serviceNamesOf(bookStore).database);

export type Component = 'app' | 'database';

/** The labels that select the pods of one component. */
export const selectorLabels = (bookStore: BookStore, component: Component): Readonly<Record<string, string>> => ({
  'app.kubernetes.io/name': 'bookstore',
  'app.kubernetes.io/instance': childName(bookStore.metadata.name, maxLabelLength),
  'app.kubernetes.io/component': component,
});

/** The labels of every object of one component. */
const objectLabels = (bookStore: BookStore, component: Component): Readonly<Record<string, string>> => ({
  ...selectorLabels(bookStore, component),
  'app.kubernetes.io/managed-by': 'echoperator',
});

/** The metadata of a child of one component. */
export const childMetadata = (bookStore: BookStore, { name }: ObjectKey, component: Component) => ({
  name,
  labels: objectLabels(bookStore, component),
});

/** The metadata of the pods of one component. */
export const podMetadataFor = (
  bookStore: BookStore,
  component: Component,
  spec: SpecWithDefaults,
  defaults: PodDefaults,
) => podMetadataOf(objectLabels(bookStore, component), defaults.metadata, spec[component].podMetadata);

/**
 * The pod's spec of one component, without its volumes.
 *
 * @param own the fields of the container that only this component has.
 */
export function podSpecOf(
  { podSecurityContext, container }: SpecWithDefaults['app'] | DatabaseSpec,
  { spec, container: containerDefaults }: PodDefaults,
  own: Omit<Container, keyof ContainerSettings>,
): PodSpec {
  return {
    automountServiceAccountToken: false,
    ...spec,
    ...(podSecurityContext && { securityContext: podSecurityContext }),
    containers: [{ ...own, ...containerDefaults, ...container }],
  };
}

/** A container is ready when it listens on its port. Nothing else is known about an arbitrary image. */
export const readyWhenListening = (port: number) => ({ tcpSocket: { port }, periodSeconds: 5 }) as const;
