import { getMember, isObject } from '../apply/json.ts';
import { deepFreeze } from '../cache/deep-freeze.ts';
import { isTooDeep, maxNesting } from '../client/parse-body.ts';
import { isCustomKind, specProblem } from '../kind/define-kind.ts';
import { resourceName } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import { type WebhookHandler, WebhookRequestError } from '../webhook-server/webhook-server.ts';
import type { AdmissionError, AdmissionRequest, DefinedAdmission } from './define-admission.ts';
import { jsonPatch } from './json-patch.ts';

/** API servers cut longer warnings. */
const maxWarningLength = 256;
const maxWarnings = 16;
/** A Status must stay small enough to be logged and shown. */
const maxErrors = 32;
const maxMessageLength = 1024;

/** The path of a webhook: one per kind and function. */
export const admissionPath = (does: 'validate' | 'default', { kind }: DefinedAdmission): string =>
  `/admission/${does}/${resourceName(kind)}/${kind.version}`;

/** Returns the handlers of the functions that the definitions have, by path. */
export function admissionHandlers(admissions: Iterable<DefinedAdmission>): ReadonlyMap<string, WebhookHandler> {
  const handlers = new Map<string, WebhookHandler>();
  for (const admission of admissions) {
    const { validate, defaults } = admission.definition;
    if (validate !== undefined) handlers.set(admissionPath('validate', admission), handler(admission, validating));
    if (defaults !== undefined) handlers.set(admissionPath('default', admission), handler(admission, defaulting));
  }
  return handlers;
}

/** A parsed request of an API server. */
interface Review {
  readonly uid: string;
  readonly object: KubeObject;
  readonly previous: KubeObject | undefined;
  readonly request: AdmissionRequest;
  /** Whether an object is nested so deep that recursive functions, also those of the definition, would fail. */
  readonly isTooDeep: boolean;
}

type Verdict = Readonly<Record<string, unknown>> & { readonly allowed: boolean };

const handler =
  (
    admission: DefinedAdmission,
    judge: (admission: DefinedAdmission, review: Review) => Promise<Verdict>,
  ): WebhookHandler =>
  async (body, signal) => {
    const warnings: string[] = [];
    const warn = (text: string): void => {
      // API servers drop a warning with control characters.
      if (warnings.length < maxWarnings) warnings.push(cut(text.replace(/[\s\p{Cc}]+/gu, ' '), maxWarningLength));
    };
    const review = parseReview(body, signal, warn);
    // A finalizer must be removable whatever else is wrong. The match conditions say the same to API servers.
    const isDeleted = review.object.metadata.deletionTimestamp !== undefined;
    const verdict = isDeleted ? { allowed: true } : await verdictOn(admission, review, judge);
    return {
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: review.uid, ...verdict, ...(warnings.length > 0 && { warnings }) },
    };
  };

async function verdictOn(
  admission: DefinedAdmission,
  review: Review,
  judge: (admission: DefinedAdmission, review: Review) => Promise<Verdict>,
): Promise<Verdict> {
  if (!review.isTooDeep) return judge(admission, review);
  // Not an error, which an API server would ignore with `failurePolicy: Ignore`.
  const message = `an object may be nested at most ${maxNesting} levels deep`;
  return refusal(admission, review, [{ path: '', message }]);
}

async function validating(admission: DefinedAdmission, review: Review): Promise<Verdict> {
  const errors = (await admission.definition.validate?.(review.object, review.previous, review.request)) ?? [];
  return errors.length === 0 ? { allowed: true } : refusal(admission, review, errors);
}

function refusal({ kind }: DefinedAdmission, { request }: Review, all: readonly AdmissionError[]): Verdict {
  // A path may contain keys of the object, which are of any length.
  const errors = all
    .slice(0, maxErrors)
    .map(({ path, message }) => ({ path: cut(path, maxMessageLength), message: cut(message, maxMessageLength) }));
  const texts = errors.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`));
  const [first] = texts;
  const problem = texts.length === 1 ? first : `[${texts.join(', ')}]`;
  return {
    allowed: false,
    status: {
      status: 'Failure',
      code: 422,
      reason: 'Invalid',
      message: `${kind.kind}.${kind.group} "${request.name}" is invalid: ${problem}`,
      details: {
        name: request.name,
        group: kind.group,
        kind: kind.kind,
        causes: errors.map(({ path, message }) => ({ reason: 'FieldValueInvalid', message, field: path })),
      },
    },
  };
}

const cut = (text: string, length: number): string => text.slice(0, length).toWellFormed();

async function defaulting({ kind, definition }: DefinedAdmission, review: Review): Promise<Verdict> {
  // The API server checks the schema only after this: it refuses the object with a better message.
  if (isCustomKind(kind) && specProblem(kind, review.object) !== undefined) return { allowed: true };
  const completed = await definition.defaults?.(review.object, review.request);
  const patch = completed === undefined ? [] : jsonPatch(review.object, completed);
  if (patch.length === 0) return { allowed: true };
  return { allowed: true, patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(patch)).toString('base64') };
}

/** @throws WebhookRequestError for anything that is no AdmissionReview of the version v1 with an object. */
function parseReview(body: unknown, signal: AbortSignal, warn: (text: string) => void): Review {
  if (getMember(body, 'apiVersion') !== 'admission.k8s.io/v1' || getMember(body, 'kind') !== 'AdmissionReview')
    throw new WebhookRequestError(400, 'the body is no AdmissionReview of admission.k8s.io/v1');
  const request = getMember(body, 'request');
  const [uid, operation] = [getMember(request, 'uid'), getMember(request, 'operation')];
  if (typeof uid !== 'string' || uid === '') throw new WebhookRequestError(400, 'request.uid is missing');
  if (operation !== 'CREATE' && operation !== 'UPDATE')
    throw new WebhookRequestError(400, 'request.operation is neither CREATE nor UPDATE');
  const object = objectOf(request, 'object');
  if (object === undefined) throw new WebhookRequestError(400, 'request.object is missing');
  const previous = objectOf(request, 'oldObject');
  const isDeep = isTooDeep(object) || isTooDeep(previous);
  // Freezing is recursive. No function of the definition gets what is too deep.
  if (!isDeep) for (const each of [object, previous]) deepFreeze(each);
  const [name, namespace] = [getMember(request, 'name'), getMember(request, 'namespace')];
  const userInfo = getMember(request, 'userInfo');
  const [userName, groups] = [getMember(userInfo, 'username'), getMember(userInfo, 'groups')];
  return {
    uid,
    object,
    previous,
    isTooDeep: isDeep,
    request: {
      operation,
      // A new object with `generateName` has no name yet.
      name: typeof name === 'string' ? name : '',
      ...(typeof namespace === 'string' && namespace !== '' && { namespace }),
      isDryRun: getMember(request, 'dryRun') === true,
      user: {
        name: typeof userName === 'string' ? userName : '',
        groups: Array.isArray(groups) ? groups.filter((group) => typeof group === 'string') : [],
      },
      signal,
      warn,
    },
  };
}

function objectOf(request: unknown, member: 'object' | 'oldObject'): KubeObject | undefined {
  const object = getMember(request, member);
  if (object === undefined || object === null) return undefined;
  if (!isObject(object) || !isObject(getMember(object, 'metadata')))
    throw new WebhookRequestError(400, `request.${member} is no object with metadata`);
  return object as unknown as KubeObject;
}
