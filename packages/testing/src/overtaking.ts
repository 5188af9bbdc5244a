import { isDeepStrictEqual } from 'node:util';
import {
  type Condition,
  controllerOf,
  findCondition,
  type Kind,
  type KubeObject,
  type ObjectKey,
} from '@echoperator/runtime';
import { type Client, getIfPresent, isConflict } from '@echoperator/runtime/client';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { eventually } from './eventually.ts';

type ConditionedObject = KubeObject & { readonly status?: StandardStatus };

const finalizer = 'example.com/somebody-else';

const conditionType = 'SomebodyElse';

/** A change that another client made to an object just before a write of the operator arrived. */
export interface Overtaking {
  /** `replaced`: another object, which nobody owns, has the name. */
  readonly type: 'edited' | 'replaced';
  /** @throws Error if the operator has undone the change */
  check(): Promise<void>;
  undo(): Promise<void>;
}

/**
 * Replaces a child by an object of the same name that nobody owns. Adds a condition and a finalizer to any other
 * object.
 *
 * @returns undefined if there is no object
 */
export async function overtake(client: Client, kind: Kind, key: ObjectKey): Promise<Overtaking | undefined> {
  const object = await getIfPresent<ConditionedObject>(client, kind, key);
  if (object === undefined) return undefined;
  return controllerOf(object) === undefined ? edit(client, kind, key) : replace(client, kind, object);
}

async function edit(client: Client, kind: Kind, key: ObjectKey): Promise<Overtaking> {
  /** Edits the object, and retries if the operator changes it first. An object that is gone is skipped. */
  const change = (work: (object: ConditionedObject) => Promise<unknown>): Promise<unknown> =>
    eventually(`${kind.kind} ${key.name} is edited`, async () => {
      const object = await getIfPresent<ConditionedObject>(client, kind, key);
      if (object === undefined) return true;
      return work(object).then(
        () => true,
        (error: unknown) => {
          if (isConflict(error)) return false;
          throw error;
        },
      );
    });
  const setConditions = ({ metadata, status }: ConditionedObject, isPresent: boolean): Promise<ConditionedObject> => {
    const others = (status?.conditions ?? []).filter(({ type }) => type !== conditionType);
    const lastTransitionTime = metadata.creationTimestamp;
    const own: Condition = {
      type: conditionType,
      status: 'True',
      reason: 'Overtaken',
      message: '',
      lastTransitionTime,
    };
    const conditions = isPresent ? [...others, own] : others;
    return client.mergeStatus<ConditionedObject>(kind, metadata, {
      conditions: conditions.length === 0 ? null : conditions,
    });
  };
  const setFinalizers = ({ metadata }: ConditionedObject, isPresent: boolean): Promise<unknown> => {
    const { finalizers = [], resourceVersion } = metadata;
    const others = finalizers.filter((each) => each !== finalizer);
    const body = { metadata: { resourceVersion, finalizers: isPresent ? [...others, finalizer] : others } };
    return client.patch(kind, metadata, { type: 'merge', body });
  };
  let [hasCondition, hasFinalizer] = [false, false];
  await change(async (object) => {
    // The schema of the kind may have no conditions.
    hasCondition = findCondition((await setConditions(object, true)).status?.conditions, conditionType) !== undefined;
  });
  await change(async (object) => {
    // The API server does not add a finalizer to an object that is being deleted.
    hasFinalizer = object.metadata.deletionTimestamp === undefined;
    if (hasFinalizer) await setFinalizers(object, true);
  });
  return {
    type: 'edited',
    check: async () => {
      const object = await getIfPresent<ConditionedObject>(client, kind, key);
      if (object === undefined) return;
      const ofWhom = `of somebody else from ${kind.kind} ${key.name}`;
      if (hasCondition && findCondition(object.status?.conditions, conditionType) === undefined) {
        throw new Error(`the operator has removed a condition ${ofWhom}`);
      }
      if (hasFinalizer && !object.metadata.finalizers?.includes(finalizer)) {
        throw new Error(`the operator has removed a finalizer ${ofWhom}`);
      }
    },
    undo: async () => {
      if (hasCondition) await change((object) => setConditions(object, false));
      await change((object) => setFinalizers(object, false));
    },
  };
}

async function replace(client: Client, kind: Kind, child: KubeObject): Promise<Overtaking> {
  const { name, namespace = '' } = child.metadata;
  const key = { namespace, name };
  const remove = async (uid: string): Promise<void> => {
    await client.delete(kind, key, { uid, gracePeriodSeconds: 0 });
    const isGone = async (): Promise<boolean> => (await getIfPresent(client, kind, key))?.metadata.uid !== uid;
    await eventually(`${kind.kind} ${name} is gone`, isGone);
  };
  const other = await eventually(`${kind.kind} ${name} is replaced`, async () => {
    // Another client may recreate the child before this one takes the name.
    const current = await getIfPresent(client, kind, key);
    if (current !== undefined) await remove(current.metadata.uid);
    return await client.create(kind, { ...contentOf(child), metadata: key });
  });
  return {
    type: 'replaced',
    check: async () => {
      const found = await getIfPresent(client, kind, key);
      const isIntact =
        found?.metadata.uid === other.metadata.uid &&
        found.metadata.deletionTimestamp === undefined &&
        found.metadata.ownerReferences === undefined &&
        isDeepStrictEqual(contentOf(found), contentOf(other));
      if (!isIntact) throw new Error(`the operator has changed ${kind.kind} ${name}, which belongs to nobody`);
    },
    undo: () => remove(other.metadata.uid),
  };
}

/** The members of an object, without the ones that the API server sets. */
function contentOf(object: KubeObject): object {
  const { metadata: _metadata, ...content } = object;
  const { status: _status, spec, ...others } = content as { readonly status?: unknown; readonly spec?: ServerSpec };
  if (spec === undefined) return others;
  const { clusterIP, clusterIPs: _ips, ...rest } = spec;
  if (clusterIP !== undefined) return { ...others, spec: clusterIP === 'None' ? { ...rest, clusterIP } : rest };
  // The API server generates the selector of a Job.
  const { selector, template } = spec;
  const isJob = selector?.matchLabels?.['batch.kubernetes.io/controller-uid'] !== undefined;
  if (!isJob) return { ...others, spec };
  const { selector: _selector, ...jobSpec } = spec;
  return { ...others, spec: { ...jobSpec, template: { spec: template?.spec } } };
}

interface ServerSpec {
  readonly clusterIP?: string;
  readonly clusterIPs?: readonly string[];
  readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>> };
  readonly template?: { readonly spec?: object };
}
