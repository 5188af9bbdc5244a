import type { CustomKind } from '../kind/define-kind.ts';
import { resourceName } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';

/** What is wrong with a field. */
export interface AdmissionError {
  /** The path of the field: `spec.who`, `spec.items[0].name`. Empty: the object as a whole. */
  readonly path: string;
  /** What is wrong, and what is allowed. */
  readonly message: string;
}

/** A request to create or update an object. */
export interface AdmissionRequest {
  readonly operation: 'CREATE' | 'UPDATE';
  readonly name: string;
  /** Absent for a cluster-scoped kind. */
  readonly namespace?: string;
  /**
   * Nothing will be stored. The functions must have no side effects in any case: another webhook may refuse the request,
   * and an API server may call a webhook twice.
   */
  readonly isDryRun: boolean;
  readonly user: { readonly name: string; readonly groups: readonly string[] };
  /** Aborts when the API server stops waiting. */
  readonly signal: AbortSignal;
  /** Shows a text to the user, whether or not the request is allowed. `kubectl` prints it. */
  readonly warn: (text: string) => void;
}

/** A rule in CEL, for a ValidatingAdmissionPolicy. */
export interface AdmissionRule {
  /**
   * True for a valid object. Unlike a rule of a CustomResourceDefinition, it can read `request`, `namespaceObject`,
   * `params` and `authorizer`; `oldObject` is null for a new object.
   */
  readonly rule: string;
  readonly message: string;
  /** A CEL expression for a message with values. Its result replaces `message`. */
  readonly messageExpression?: string;
}

/** What users may set, and what fields get if they do not. */
export interface AdmissionDefinition<T extends KubeObject> {
  /** Rules that the API server itself evaluates. It needs no webhook for them: prefer them to `validate`. */
  readonly rules?: readonly AdmissionRule[];
  /** The kind of `params` in the rules. The binding names its object. */
  readonly paramKind?: { readonly apiVersion: string; readonly kind: string };
  /**
   * Returns what is wrong with an object. The object has its defaults and satisfies its schema. It must not write
   * anything. A thrown error is no refusal: then `failurePolicy` decides.
   *
   * @param previous the stored object. Undefined for a new one.
   */
  validate?(
    object: T,
    previous: T | undefined,
    request: AdmissionRequest,
  ): readonly AdmissionError[] | Promise<readonly AdmissionError[]>;
  /**
   * Returns a copy of the object with its defaults; undefined if it has them. It is called only for objects that satisfy
   * their schema, and must be idempotent: an API server may call it several times. Use it only for a value that depends
   * on another field or on the request. Put others into the schema.
   */
  defaults?(object: T, request: AdmissionRequest): T | undefined | Promise<T | undefined>;
  /**
   * What an API server does if the webhook cannot be called or fails. `Fail`: it refuses the request, so that while the
   * operator is down nobody can create or change objects of this kind. `Ignore`: it continues, so that the operator must
   * bear objects that `validate` would refuse. Deletions, and requests of the operator itself, work in both cases.
   * Default `Fail`.
   */
  readonly failurePolicy?: 'Fail' | 'Ignore';
  /** How long an API server waits. 1 to 30. Default 5. */
  readonly timeoutSeconds?: number;
  /** The webhook is called only if all these CEL expressions are true, in addition to the standard ones. */
  readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[];
}

/** The admission of a kind, as {@link defineAdmission} returns it. */
export interface DefinedAdmission {
  readonly kind: CustomKind;
  readonly definition: AdmissionDefinition<KubeObject>;
}

/**
 * Declares the admission of a kind: rules in CEL, and functions that API servers call as webhooks.
 *
 * @throws RangeError for a `timeoutSeconds` that is no integer from 1 to 30, TypeError if nothing is declared.
 *
 * @example
 * export const greetingAdmission = defineAdmission(Greeting, {
 *   validate: ({ metadata }) =>
 *     metadata.name.startsWith('x-') ? [{ path: 'metadata.name', message: 'must not begin with x-' }] : [],
 * });
 */
export function defineAdmission<T extends KubeObject>(
  kind: CustomKind<T>,
  definition: AdmissionDefinition<NoInfer<T>>,
): DefinedAdmission {
  const { timeoutSeconds = 5, rules = [], validate, defaults } = definition;
  if (!(Number.isInteger(timeoutSeconds) && timeoutSeconds >= 1 && timeoutSeconds <= 30))
    throw new RangeError(`timeoutSeconds must be an integer from 1 to 30, is ${timeoutSeconds}`);
  if (rules.length === 0 && validate === undefined && defaults === undefined)
    throw new TypeError(`the admission of ${resourceName(kind)} declares nothing: add rules, validate or defaults`);
  return { kind, definition };
}
