import { setTimeout as delay } from 'node:timers/promises';
import {
  type Client,
  type CustomKind,
  customResourceDefinition,
  deleteIfPresent,
  type Logger,
} from '@echoperator/runtime';
import { isNotFound } from '@echoperator/runtime/client';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';

const pollMs = 200;

/** The annotation of a definition with the version of the operator that it belongs to. */
const versionAnnotation = 'echoperator.github.io/version';

/** The version of a program that runs from source. */
export const unreleased = 'dev';

/** The kind's definition as this version of the operator applies it. */
export function definitionOf(
  kind: CustomKind,
  version: string,
): ReturnType<typeof customResourceDefinition> & { readonly metadata: { readonly name: string } } {
  const definition = customResourceDefinition(kind);
  if (version === unreleased) return definition;
  const metadata = { ...definition.metadata, annotations: { [versionAnnotation]: version } };
  return { ...definition, metadata };
}

/**
 * Applies the kinds' CustomResourceDefinitions and waits until each is Established. (The API server may start to serve
 * the objects a moment later.) Existing objects do not change. Keeps a definition that a newer version of the operator
 * has applied. An older definition would remove fields of stored objects that releases of the newer version use. Needs
 * get, create and patch on these CustomResourceDefinitions.
 *
 * @param options.version this operator's version; {@link unreleased} replaces every definition
 * @throws ApiError if the API server refuses one; an Error with the definition's state if the signal ends the wait.
 */
export async function applyCustomResourceDefinitions(
  client: Client,
  kinds: readonly CustomKind[],
  { version, log, signal }: { readonly version: string; readonly log: Logger; readonly signal: AbortSignal },
): Promise<void> {
  for (const kind of kinds) {
    const manifest = definitionOf(kind, version);
    const { name } = manifest.metadata;
    const installed = version === unreleased ? undefined : await installedVersion(client, name, signal);
    if (installed !== undefined && isNewer(installed, version)) {
      log.warn({ crd: name, installed }, 'a newer version of the operator has applied this definition: it stays');
      continue;
    }
    // Resets a definition that was stored as v1beta1, such as the original BookStore's. With `true` the API server
    // accepts and stores fields that the schema lacks, also misspelt ones. The generated files lack this field, because
    // the API server never returns `false`, so GitOps would see a difference.
    const spec = { ...manifest.spec, preserveUnknownFields: false };
    // Force, because helm, kubectl or an older release may own fields of our definition.
    await client.apply(CustomResourceDefinition, { ...manifest, spec }, { force: true, signal });
    log.info({ crd: name }, 'applied');
  }
  for (const kind of kinds) {
    const { metadata } = customResourceDefinition(kind);
    await waitUntilEstablished(client, metadata.name, signal);
    log.info({ crd: metadata.name }, 'established');
  }
}

async function installedVersion(client: Client, name: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    const { metadata } = await client.get(CustomResourceDefinition, { name }, { signal });
    return metadata.annotations?.[versionAnnotation];
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Compares semantic versions. A text that is no version is older than every version. */
function isNewer(version: string, than: string): boolean {
  const [, release, prerelease] = /^(\d+\.\d+\.\d+)(?:-([^+]+))?/.exec(version) ?? [];
  const [, otherRelease = '', otherPrerelease] = /^(\d+\.\d+\.\d+)(?:-([^+]+))?/.exec(than) ?? [];
  if (release === undefined) return false;
  const order = compareNumbersIn(release, otherRelease);
  if (order !== 0 || otherPrerelease === undefined) return order > 0;
  return prerelease === undefined || compareNumbersIn(prerelease, otherPrerelease) > 0;
}

/** Compares texts, with the numbers in them as numbers: `0.10` is after `0.9`. */
const compareNumbersIn = (one: string, other: string): number => one.localeCompare(other, 'en', { numeric: true });

/**
 * Deletes the kinds' CustomResourceDefinitions, and with them every object of these kinds, and waits until they are
 * gone. Needs get and delete on them.
 *
 * @throws ApiError if the API server refuses a deletion; an Error with the definition's state if the signal ends the
 *   wait. An object may have a finalizer that nobody removes.
 */
export async function deleteCustomResourceDefinitions(
  client: Client,
  kinds: readonly CustomKind[],
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const names = kinds.map((kind) => customResourceDefinition(kind).metadata.name);
  for (const name of names) await deleteIfPresent(client, CustomResourceDefinition, { name }, { signal });
  for (const name of names) {
    await waitUntilGone(client, name, signal);
    log.info({ crd: name }, 'deleted');
  }
}

async function waitUntilGone(client: Client, name: string, signal: AbortSignal): Promise<void> {
  let state = 'unknown';
  try {
    for (;;) {
      const { status } = await client.get(CustomResourceDefinition, { name }, { signal });
      const terminating = status?.conditions?.filter(({ type }) => type === 'Terminating') ?? [];
      state = terminating.length > 0 ? conditionsOf({ conditions: terminating }) : 'the API server has not begun';
      await delay(pollMs, undefined, { signal });
    }
  } catch (error) {
    if (isNotFound(error)) return;
    if (!signal.aborted) throw error;
    throw new Error(`${name} is being deleted but is not gone: ${state}`, { cause: error });
  }
}

async function waitUntilEstablished(client: Client, name: string, signal: AbortSignal): Promise<void> {
  let state = 'unknown';
  try {
    for (;;) {
      const crd = await client.get(CustomResourceDefinition, { name }, { signal });
      if (isEstablished(crd)) return;
      state = stateOf(crd);
      await delay(pollMs, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Error(`${name} was applied but did not become Established: ${state}`, { cause: error });
  }
}

/** False for a definition that is being deleted, although the API server still serves it. */
function isEstablished({ metadata, status }: CustomResourceDefinition): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  return status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True') ?? false;
}

function stateOf({ metadata, status }: CustomResourceDefinition): string {
  if (metadata.deletionTimestamp !== undefined) return 'it is being deleted';
  return conditionsOf(status);
}

const conditionsOf = (status: CustomResourceDefinition['status']): string =>
  (status?.conditions ?? []).map(({ type, status, message }) => `${type} is ${status}: ${message}`).join('; ') ||
  'no conditions';
