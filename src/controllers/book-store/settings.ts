import type { BookStore } from '../../api/index.ts';
import type { Deployment } from '../built-in-kinds.ts';
import { durationMs } from './duration.ts';

type Container = NonNullable<Deployment['spec']>['template']['spec'] extends infer S | undefined
  ? S extends { readonly containers: readonly (infer C)[] }
    ? C
    : never
  : never;

/** Of a container what its image, its environment and its size are. */
export type ContainerSettings = Pick<Container, 'image' | 'imagePullPolicy' | 'env' | 'resources'>;

/** A BookStore's spec, with what it leaves to the operator filled in. */
export interface Settings {
  readonly app: {
    readonly container: ContainerSettings;
    /** Absent: whatever somebody else sets. */
    readonly replicas: number | undefined;
    readonly port: number;
    readonly targetPort: number;
    readonly serviceType: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
    readonly serviceName: string;
  };
  readonly database: {
    readonly container: ContainerSettings;
    readonly replicas: number;
    readonly port: number;
    /** A quantity. */
    readonly size: string;
    readonly serviceName: string;
    /** Absent: the cluster's default. */
    readonly storageClassName: string | undefined;
    readonly dataPath: string;
    readonly reclaimPolicy: 'Retain' | 'Delete';
    readonly resizeRestartAfterMs: number;
  };
}

/** What a BookStore asks for, its defaults among it. */
export function settingsOf({ spec }: BookStore): Settings {
  const { bookApp, bookDB } = spec;
  const { port = 80 } = bookApp;
  return {
    app: {
      container: containerOf(bookApp),
      replicas: bookApp.replicas,
      port,
      targetPort: bookApp.targetPort ?? port,
      serviceType: bookApp.serviceType ?? 'ClusterIP',
      serviceName: bookApp.serviceName ?? 'bookstore-svc',
    },
    database: {
      container: containerOf(bookDB),
      replicas: bookDB.replicas ?? 1,
      port: bookDB.port ?? 27_017,
      size: String(bookDB.dbSize),
      serviceName: bookDB.serviceName ?? 'mongodb-service',
      storageClassName: bookDB.storageClassName,
      dataPath: bookDB.dataPath ?? '/data/db',
      reclaimPolicy: bookDB.reclaimPolicy ?? 'Retain',
      resizeRestartAfterMs: durationMs(bookDB.resizeRestartAfter ?? '5m'),
    },
  };
}

type ImageSpec = BookStore['spec']['bookApp'] | BookStore['spec']['bookDB'];

function containerOf({ repository, tag = 'latest', imagePullPolicy, env, resources }: ImageSpec): ContainerSettings {
  const { requests, limits } = resources ?? {};
  return {
    image: `${repository}:${tag}`,
    imagePullPolicy: imagePullPolicy ?? 'IfNotPresent',
    ...(env && { env: env.map(withServerDefaults) }),
    ...(resources && {
      resources: { ...(requests && { requests: texts(requests) }), ...(limits && { limits: texts(limits) }) },
    }),
  };
}

type Variable = NonNullable<ImageSpec['env']>[number];

/** These references are atomic: without the server's defaults each restart of the operator would cost an apply. */
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

/** The API server stores each quantity as a text. */
const texts = (quantities: Readonly<Record<string, string | number>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(quantities).map(([resource, quantity]) => [resource, String(quantity)]));
