import { isObject } from '../apply/json.ts';
import { isNested, maxNesting } from '../client/parse-body.ts';
import type { CustomKind } from '../kind/define-kind.ts';
import { groupOf, resourceName } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import { WebhookRequestError } from '../webhook-server/webhook-server.ts';
import { ConversionError, convert } from './versions.ts';

/** A `ConversionReview` (apiextensions.k8s.io/v1) with a response. */
export interface ConversionReview {
  readonly apiVersion: 'apiextensions.k8s.io/v1';
  readonly kind: 'ConversionReview';
  readonly response: {
    readonly uid: string;
    readonly convertedObjects: readonly KubeObject[];
    readonly result: { readonly status: 'Success' | 'Failure'; readonly message?: string };
  };
}

/**
 * Converts the objects of a `ConversionReview`. If one cannot be converted, the response is a failure: an API server
 * accepts all objects of a request, or none.
 *
 * @param kinds the stored versions, with the others.
 * @param review the parsed request.
 * @throws WebhookRequestError if it is no ConversionReview.
 */
export function conversionReview(kinds: readonly CustomKind[], review: unknown): ConversionReview {
  const { uid, desiredAPIVersion, objects } = requestOf(review);
  const respond = (response: Omit<ConversionReview['response'], 'uid'>): ConversionReview => ({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'ConversionReview',
    response: { uid, ...response },
  });
  try {
    const convertedObjects = objects.map((object) => {
      emptyDeepLevels(object);
      return convert(kindOf(kinds, object), object, desiredAPIVersion);
    });
    return respond({ convertedObjects, result: { status: 'Success' } });
  } catch (error) {
    if (!(error instanceof ConversionError)) throw error;
    return respond({ convertedObjects: [], result: { status: 'Failure', message: error.message } });
  }
}

function kindOf(kinds: readonly CustomKind[], { apiVersion = '', kind }: KubeObject): CustomKind {
  const found = kinds.find((each) => each.kind === kind && each.group === groupOf(apiVersion));
  if (found !== undefined) return found;
  throw new ConversionError(
    `no ${kind} of ${apiVersion} is converted here, only ${kinds.map(resourceName).join(', ')}`,
  );
}

interface ConversionRequest {
  readonly uid: string;
  readonly desiredAPIVersion: string;
  readonly objects: readonly KubeObject[];
}

function requestOf(review: unknown): ConversionRequest {
  const request = isObject(review) && review.kind === 'ConversionReview' ? review.request : undefined;
  if (
    isObject(request) &&
    typeof request.uid === 'string' &&
    typeof request.desiredAPIVersion === 'string' &&
    Array.isArray(request.objects) &&
    request.objects.every(
      (object) => isObject(object) && isObject(object.metadata) && typeof object.apiVersion === 'string',
    )
  )
    return request as unknown as ConversionRequest;
  throw new WebhookRequestError(400, 'the body is not a ConversionReview with a request');
}

/**
 * Empties objects and lists that are nested {@link maxNesting} levels deep. Deeper ones would overflow the stack, also
 * in the functions of a conversion, and a list of all objects must not fail for one of them.
 */
function emptyDeepLevels(object: object): void {
  let level = [object];
  for (let depth = 0; depth < maxNesting && level.length > 0; depth += 1)
    level = level.flatMap((each) => Object.values(each).filter(isNested));
  for (const each of level) {
    if (Array.isArray(each)) each.length = 0;
    else for (const name of Object.keys(each)) Reflect.deleteProperty(each, name);
  }
}
