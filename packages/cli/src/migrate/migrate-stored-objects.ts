import { setTimeout as pause } from 'node:timers/promises';
import type { Kind, KubeObject, Manifest, ObjectKey } from '@echoperator/runtime';
import { keyString } from '@echoperator/runtime';
import { ApiError, type Client, isConflict, isExpired, isNotFound } from '@echoperator/runtime/client';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';

/** Options of {@link migrateStoredObjects}. */
export interface MigrationOptions {
  /** The most objects that are rewritten in a second. Objects that are stored in the new version do not count. */
  readonly perSecond: number;
  /**
   * How long an API server may take to see a change of the definition. Until then it may store the old version. Assumes
   * that the clock of this machine is not ahead of the API server's by so much.
   */
  readonly settleMs: number;
  /** Gets a line about the progress. */
  readonly report: (line: string) => void;
  /** Ends the migration, which then rejects with the reason of the signal. It may be started again. */
  readonly signal?: AbortSignal;
}

/** Objects may still be stored in an old version. The message names the definition, the versions and what to do. */
export class MigrationError extends Error {
  override readonly name = 'MigrationError';
}

const pageSize = 250;
/** If so many objects cannot be rewritten, the cause is probably not in the objects. */
const maxFailures = 20;
const reportEveryMs = 5_000;
/** Owns no field. The empty apply of a field manager that has applied fields would remove them. */
const fieldManager = 'echoperator-cli-migrate';

/**
 * Rewrites every object of a CustomResourceDefinition in the stored version, and then removes the other versions from
 * `status.storedVersions`.
 *
 * Each object gets an empty server-side apply, as from Kubernetes' own migrator
 * (pkg/controller/storageversionmigrator). The API server encodes the object in the stored version, and writes it only
 * if that differs from what etcd holds (`GuaranteedUpdate` of k8s.io/apiserver/pkg/storage/etcd3). So a migration that
 * was interrupted starts again from the beginning, and what it had rewritten costs a request but no write. An update or
 * a merge patch would not do: if a conversion of `managedFields` fails, the API server drops all of them silently,
 * whereas an apply fails (`UpdateNoErrors` of k8s.io/apimachinery/pkg/util/managedfields).
 *
 * The apply requires the uid and the version of the list. A Conflict means that the object is gone, or that another
 * client has written or replaced it and thereby migrated it.
 *
 * All keys are listed before the first write. An object that cannot be converted fails the list, so nothing is
 * written, and a throttled migration does not outlive the version of its list.
 *
 * @param name of the definition: `greetings.example.com`.
 * @throws MigrationError if an object cannot be rewritten, or if the spec of the definition changes meanwhile; ApiError
 *   if the definition cannot be read or the objects cannot be listed. `status.storedVersions` is then unchanged.
 */
export async function migrateStoredObjects(client: Client, name: string, options: MigrationOptions): Promise<void> {
  const { report, signal } = options;
  const definition = await settledDefinition(client, name, options);
  const kind = storedKind(definition);
  const old = oldVersions(definition, kind);
  if (old.length === 0) {
    report(`${name}: all objects are stored in ${kind.version}`);
    return;
  }
  const keys = await listKeys(client, kind, signal);
  report(`${name}: ${keys.length} objects, of which some may be stored in ${old.join(', ')}, not ${kind.version}`);
  const failures = await rewrite(client, kind, keys, options);
  if (failures.length > 0) {
    const what = `${failures.length === maxFailures ? 'at least ' : ''}${failures.length} of ${keys.length} objects`;
    throw new MigrationError(
      `${name}: ${what} could not be written in ${kind.version}, so status.storedVersions keeps ${old.join(', ')}. ` +
        `Correct them, and run the command again:\n${failures.join('\n')}`,
    );
  }
  await removeOldVersions(client, definition, kind, signal);
  report(`${name}: all objects are stored in ${kind.version}; removed ${old.join(', ')} from status.storedVersions`);
}

/** Reads the definition, but not before every API server has seen its last change. */
async function settledDefinition(
  client: Client,
  name: string,
  { settleMs, report, signal }: MigrationOptions,
): Promise<CustomResourceDefinition> {
  for (let awaited: number | undefined; ; ) {
    const definition = await client.get(CustomResourceDefinition, { name }, requestOptions(signal));
    const waitMs = Math.min(changedAtMs(definition) + settleMs - Date.now(), settleMs);
    // Only once for each change: the clock of the API server may be ahead.
    if (waitMs <= 0 || definition.metadata.generation === awaited) return definition;
    awaited = definition.metadata.generation;
    report(`${name} has just changed: waiting ${Math.ceil(waitMs / 1000)} s until every API server has seen it`);
    await pause(waitMs, undefined, requestOptions(signal));
  }
}

/** The time of the last change of the spec, by the clock of the API server. */
function changedAtMs({ metadata }: CustomResourceDefinition): number {
  const { managedFields = [] } = metadata as {
    readonly managedFields?: readonly { readonly time?: string; readonly fieldsV1?: object }[];
  };
  const times = managedFields
    .filter(({ fieldsV1 }) => fieldsV1 !== undefined && 'f:spec' in fieldsV1)
    .map(({ time }) => Date.parse(time ?? ''));
  return Math.max(Date.parse(metadata.creationTimestamp), ...times.filter((time) => !Number.isNaN(time)));
}

/** @throws MigrationError if clients cannot use the stored version. */
function storedKind({ metadata, spec }: CustomResourceDefinition): Kind {
  const stored = spec.versions.find(({ storage }) => storage);
  if (stored?.served !== true)
    throw new MigrationError(`${metadata.name}: the stored version ${stored?.name} is not served: set served: true`);
  const { group, names, scope } = spec;
  return {
    group,
    version: stored.name,
    kind: names.kind,
    plural: names.plural,
    scope: scope === 'Cluster' ? 'Cluster' : 'Namespaced',
  };
}

const oldVersions = ({ status }: CustomResourceDefinition, { version }: Kind): readonly string[] =>
  (status?.storedVersions ?? []).filter((each) => each !== version);

type Key = ObjectKey & Pick<KubeObject['metadata'], 'resourceVersion' | 'uid'>;

async function listKeys(client: Client, kind: Kind, signal: AbortSignal | undefined): Promise<readonly Key[]> {
  const keys: Key[] = [];
  const options = { limit: pageSize, dropManagedFields: true, ...requestOptions(signal) };
  for (let token: string | undefined; ; ) {
    try {
      const { items, metadata } = await client.listMetadata(kind, { ...options, ...(token && { continue: token }) });
      for (const { metadata: each } of items) {
        const { name, namespace, uid, resourceVersion } = each;
        keys.push({ name, uid, resourceVersion, ...(namespace !== undefined && { namespace }) });
      }
      token = metadata.continue;
      if (!token) return keys;
    } catch (error) {
      // The server offers to continue after the last page, at its present version. Objects that have been created
      // meanwhile are stored in the new version.
      const next = isExpired(error) ? error.status.metadata?.continue : undefined;
      if (!next) throw error;
      token = next;
    }
  }
}

/** Rewrites the objects and returns a line for each that could not be rewritten. */
async function rewrite(
  client: Client,
  kind: Kind,
  keys: readonly Key[],
  { perSecond, report, signal }: MigrationOptions,
): Promise<readonly string[]> {
  const failures: string[] = [];
  let rewritten = 0;
  let reportedAtMs = performance.now();
  let nextAtMs = performance.now();
  for (const [index, { uid, resourceVersion, ...key }] of keys.entries()) {
    signal?.throwIfAborted();
    if (performance.now() - reportedAtMs >= reportEveryMs) {
      reportedAtMs = performance.now();
      report(`${index} of ${keys.length} objects, ${rewritten} rewritten`);
    }
    try {
      const nothing: Manifest<KubeObject> = { metadata: key };
      const options = { uid, resourceVersion, fieldManager, ...requestOptions(signal) };
      const { metadata } = await client.apply(kind, nothing, options);
      if (metadata.resourceVersion === resourceVersion) continue;
      rewritten += 1;
    } catch (error) {
      signal?.throwIfAborted();
      // Deleted, or written by another client meanwhile.
      if (isNotFound(error) || isConflict(error)) continue;
      failures.push(`${keyString(key)}: ${error instanceof ApiError ? error.serverMessage : String(error)}`);
      if (failures.length === maxFailures) return failures;
    }
    // Every write is an event for all watches of the kind, so only writes are throttled.
    nextAtMs = Math.max(nextAtMs + 1000 / perSecond, performance.now() - 1000 / perSecond);
    const waitMs = nextAtMs - performance.now();
    if (waitMs > 0) await pause(waitMs, undefined, requestOptions(signal));
  }
  report(`${keys.length} objects, ${rewritten} rewritten`);
  return failures;
}

/** @throws MigrationError if the spec of the definition has changed: a client may have stored an old version since. */
async function removeOldVersions(
  client: Client,
  before: CustomResourceDefinition,
  { version }: Kind,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { name, uid, generation } = before.metadata;
  for (;;) {
    const { metadata, spec, status } = await client.get(CustomResourceDefinition, { name }, requestOptions(signal));
    if (metadata.uid !== uid || metadata.generation !== generation) {
      const stored = spec.versions.find(({ storage }) => storage)?.name;
      throw new MigrationError(
        `${name}: the definition has changed during the migration to ${version} (it now stores ${stored}), so ` +
          `status.storedVersions keeps ${status?.storedVersions?.join(', ')}: run the command again`,
      );
    }
    try {
      const { resourceVersion } = metadata;
      const desired = { storedVersions: [version] };
      await client.mergeStatus(CustomResourceDefinition, { name, resourceVersion }, desired, requestOptions(signal));
      return;
    } catch (error) {
      // The status or the metadata has changed. If the spec has not, try again.
      if (!isConflict(error)) throw error;
    }
  }
}

const requestOptions = (signal: AbortSignal | undefined) => (signal === undefined ? {} : { signal });
