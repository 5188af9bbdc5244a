import { isDeepStrictEqual } from 'node:util';
import type { Kind } from '@echoperator/runtime';
import type { OwnerReference } from '@echoperator/runtime/client';
import { dnsSubdomain } from './built-in-refusals.ts';
import { type FieldError, fieldError, fieldValueError, invalid } from './field-error.ts';
import { RefusedError, type StoredMetadata, type StoredObject } from './strategy.ts';

const qualifiedName =
  /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const maxAnnotationBytes = 256 * 1024;

/**
 * Members that a client cannot change after the creation. In a patch, the API server ignores some of them and refuses
 * others.
 */
const immutable = [
  'name',
  'namespace',
  'uid',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
] as const;

/**
 * Prepares and validates an object with `prepare`, and validates its metadata as ValidateObjectMeta of
 * k8s.io/apimachinery does.
 *
 * @param old the stored object; undefined for a creation.
 * @throws {@link RefusedError} 422 with a cause for each problem: those of the metadata first.
 */
export function withValidMetadata(
  kind: Kind,
  object: StoredObject,
  old: StoredObject | undefined,
  prepare: () => StoredObject,
): StoredObject {
  let { metadata } = object;
  let prepared = object;
  let others: readonly FieldError[] = [];
  try {
    prepared = prepare();
    ({ metadata } = prepared);
  } catch (error) {
    if (!(error instanceof RefusedError) || error.status.code !== 422) throw error;
    others = (error.status.details?.causes ?? []) as readonly FieldError[];
  }
  const causes = [...problemsOf(metadata), ...(old === undefined ? [] : changesOf(metadata, old.metadata)), ...others];
  if (causes.length > 0) throw invalid(kind, metadata.name, causes);
  return prepared;
}

function* problemsOf(metadata: StoredMetadata): Iterable<FieldError> {
  const { name, labels = {}, annotations = {}, ownerReferences = [], finalizers = [] } = metadata;
  const badValue = (field: string, value: unknown, why: string): FieldError =>
    fieldValueError('FieldValueInvalid', `metadata.${field}`, value, why);
  if (!dnsSubdomain.test(name)) yield badValue('name', name, 'must be a DNS subdomain');
  for (const [key, value] of Object.entries(labels)) {
    if (!qualifiedName.test(key)) yield badValue('labels', key, 'name part must be a qualified name');
    if (!labelValue.test(value)) yield badValue('labels', value, 'must be a valid label value');
  }
  let bytes = 0;
  for (const [key, value] of Object.entries(annotations)) {
    if (!qualifiedName.test(key.toLowerCase()))
      yield badValue('annotations', key, 'name part must be a qualified name');
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (bytes > maxAnnotationBytes)
    yield fieldError('FieldValueTooLong', 'metadata.annotations', 'may not be more than 262144 bytes');
  for (const [index, reference] of ownerReferences.entries()) {
    for (const member of ['apiVersion', 'kind', 'name', 'uid'] as const) {
      if (!reference[member])
        yield badValue(`ownerReferences[${index}].${member}`, reference[member], 'must not be empty');
    }
  }
  const controllers = ownerReferences.filter(({ controller }) => controller === true);
  for (const second of controllers.slice(1)) {
    const names = [controllers[0], second].map((each) => `${each?.kind}/${each?.name}`).join(' and ');
    const why = `Only one reference can have Controller set to true. Found "true" in references for ${names}`;
    yield fieldError(
      'FieldValueInvalid',
      'metadata.ownerReferences',
      `[${ownerReferences.map(printReference).join(',')}]: ${why}`,
    );
  }
  for (const finalizer of finalizers) {
    if (!qualifiedName.test(finalizer)) yield badValue('finalizers', finalizer, 'name part must be a qualified name');
  }
  if (finalizers.includes('orphan') && finalizers.includes('foregroundDeletion'))
    yield badValue('finalizers', finalizers, 'finalizer orphan and foregroundDeletion cannot be both set');
}

/** In the order of the members of Go's struct. */
const printReference = ({ apiVersion, kind, name, uid, controller, blockOwnerDeletion }: OwnerReference): string =>
  JSON.stringify({ apiVersion, kind, name, uid, controller, blockOwnerDeletion });

function* changesOf(metadata: StoredMetadata, old: StoredMetadata): Iterable<FieldError> {
  for (const member of immutable) {
    if (isDeepStrictEqual(metadata[member], old[member])) continue;
    yield fieldValueError('FieldValueInvalid', `metadata.${member}`, metadata[member], 'field is immutable');
  }
  const added = (metadata.finalizers ?? []).filter((each) => !old.finalizers?.includes(each));
  if (old.deletionTimestamp !== undefined && added.length > 0) {
    const found = added
      .sort()
      .map((each) => `"${each}"`)
      .join(', ');
    const problem = 'no new finalizers can be added if the object is being deleted';
    const why = `${problem}, found new finalizers []string{${found}}`;
    yield fieldError('FieldValueForbidden', 'metadata.finalizers', why);
  }
}
