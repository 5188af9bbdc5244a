import { Secret } from '../built-in-kinds/built-in-kinds.ts';
import { Informer } from '../cache/informer.ts';
import { isConflict } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import { getIfPresent } from '../client/get-if-present.ts';
import { type KubeObject, keyString, type ObjectKey } from '../kind/object.ts';
import { Backoff } from '../shared/backoff.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import type { CaBundleTarget } from './ca-bundle-target.ts';
import { type CertificateSecret, readCertificateSecret, toBase64, toSecretData } from './certificate-secret.ts';
import { type Certificate, type CertificateIssuer, type CertificateReader, renewalMs } from './pki.ts';

/** How long certificates are valid, and how long a change needs to reach every API server. In milliseconds. */
export interface CertificateTimes {
  /** Default: a year. */
  readonly authorityLifetimeMs?: number;
  /** At most a third of the authority's lifetime. Default: 30 days. */
  readonly servingLifetimeMs?: number;
  /**
   * How long after a new authority is in every `caBundle` its first certificate is served. API servers call webhooks
   * with the configuration of their caches. Default 30,000.
   */
  readonly propagationMs?: number;
}

/** Options of a {@link CertificateRotation}. */
export interface CertificateRotationOptions {
  readonly secret: Required<ObjectKey>;
  /** Where the authorities are written to. A target that does not exist is ignored until it does. */
  readonly targets: readonly CaBundleTarget[];
  /** The DNS names and IP addresses under which API servers call the webhooks. */
  readonly names: readonly string[];
  /** The field manager of the bundles. */
  readonly fieldManager: string;
  readonly reader: CertificateReader;
  /** Creates certificates. Undefined: the Secret is provided by somebody else, and never written. */
  readonly issuer: CertificateIssuer | undefined;
  readonly times?: CertificateTimes | undefined;
  readonly log: Logger;
}

const dayMs = 86_400_000;
/** A clock of the cluster may be this much behind ours. A tenth of the lifetime, if that is shorter. */
const toleratedSkewMs = dayMs;
/** Everything is checked at least this often, for example because the clock has been set. */
const checkEveryMs = 3_600_000;
/** A bundle has at most this many authorities. Two are usual. */
const maxAuthorities = 8;
/** After this many writes within {@link paceWindowMs}, further ones are at least {@link slowWriteMs} apart. */
const promptRepairs = 5;
/** A renewal needs two writes of the Secret. */
const promptSecretWrites = 20;
const paceWindowMs = 600_000;
const slowWriteMs = 30_000;

interface TargetObject {
  readonly target: CaBundleTarget;
  readonly object: KubeObject;
}

/**
 * Creates and renews the certificates of webhooks, and writes their authorities into every `caBundle`. Only a leader
 * may run it.
 *
 * Guarantees: a certificate is written only after every existing target has trusted its authority for the propagation
 * time; before that, nothing but the certificate of a trusted authority is in the Secret. An authority leaves the
 * bundles when it expires, and no certificate is valid for longer than its authority.
 *
 * Each pass reads the Secret and the targets from the API server and makes at most one change to each. Every write
 * carries the uid and the resourceVersion that it is computed from. So a crash between two writes, or a second leader,
 * leaves a state from which the next pass continues.
 *
 * Assumptions: the Secret exists (nobody may `create` only one name); clocks differ by at most a day.
 */
export class CertificateRotation {
  readonly #client: Client;
  readonly #options: CertificateRotationOptions;
  readonly #log: Logger;
  readonly #authorityLifetimeMs: number;
  readonly #servingLifetimeMs: number;
  readonly #propagationMs: number;
  /** Since when every target has trusted this authority, by `performance.now`, as far as this process has observed. */
  #trusted: { readonly pem: string; readonly sinceMs: number } | undefined;
  /** The bundle that was written last. */
  #published: string | undefined;
  /** When that bundle was written again because another client had changed it, by `performance.now`. */
  #repairs: readonly number[] = [];
  /** When the Secret was written, by `performance.now`. */
  #secretWrites: readonly number[] = [];
  /** The last logged problem, which is logged once. */
  #problem: string | undefined;

  /** @throws RangeError for lifetimes that contradict each other. */
  constructor(client: Client, options: CertificateRotationOptions) {
    const {
      authorityLifetimeMs = 365 * dayMs,
      servingLifetimeMs = 30 * dayMs,
      propagationMs = 30_000,
    } = options.times ?? {};
    if (!(servingLifetimeMs > 0 && servingLifetimeMs * 3 <= authorityLifetimeMs))
      throw new RangeError(
        `servingLifetimeMs must be above 0 and at most a third of authorityLifetimeMs, is ${servingLifetimeMs}`,
      );
    this.#client = client;
    this.#options = options;
    this.#log = options.log.child({ secret: keyString(options.secret) });
    this.#authorityLifetimeMs = authorityLifetimeMs;
    this.#servingLifetimeMs = servingLifetimeMs;
    this.#propagationMs = propagationMs;
  }

  /** Runs until the signal aborts. Retries what fails, with a pause of up to a minute. */
  async run(signal: AbortSignal): Promise<void> {
    let changed = Promise.withResolvers<void>();
    const wake = () => changed.resolve();
    const informers = this.#watch(wake, signal);
    const backoff = new Backoff({ initialMs: 500, maxMs: 60_000 });
    while (!signal.aborted) {
      // Before the pass, so that a change during the pass starts another one.
      changed = Promise.withResolvers();
      try {
        const waitMs = await this.reconcile(signal);
        backoff.reset();
        const waited = new AbortController();
        const either = AbortSignal.any([signal, waited.signal]);
        await Promise.race([changed.promise, pause(Math.min(waitMs, checkEveryMs), either)]);
        waited.abort();
      } catch (error) {
        if (signal.aborted) break;
        const waitMs = Math.round(backoff.next());
        const details = { err: error, waitMs };
        if (isConflict(error)) this.#log.debug(details, 'certificates have changed meanwhile: trying again');
        else this.#log.warn(details, 'certificates of webhooks could not be renewed: trying again');
        await pause(waitMs, signal);
      }
    }
    await informers;
  }

  /**
   * Makes one pass.
   *
   * @returns after how many milliseconds another pass is due, if nothing changes. 0: at once.
   * @throws the errors of the requests.
   */
  async reconcile(signal: AbortSignal): Promise<number> {
    const { secret: key, reader, issuer } = this.#options;
    const secret = await getIfPresent(this.#client, Secret, key, { signal });
    if (secret === undefined) {
      this.#report('the Secret of the certificates is missing: create it, without data');
      return checkEveryMs;
    }
    const contents = readCertificateSecret(secret, reader);
    const objects = await this.#readTargets(signal);
    if (issuer === undefined) return this.#publishProvided(contents, objects, signal);
    if (contents.chain !== '' && contents.authorityKey === '') {
      this.#report('the Secret has a certificate of somebody else: set `provided`, or remove its data');
      return checkEveryMs;
    }
    this.#problem = undefined;
    return this.#rotate(secret, contents, objects, issuer, signal);
  }

  async #rotate(
    secret: Secret,
    contents: CertificateSecret,
    objects: readonly TargetObject[],
    issuer: CertificateIssuer,
    signal: AbortSignal,
  ): Promise<number> {
    const { reader, names } = this.#options;
    const nowMs = Date.now();
    const { authorityKey, serving } = contents;
    const authorities = unexpired(contents.authorities, nowMs);
    const pauseMs = pauseBefore(this.#secretWrites, promptSecretWrites);
    const current = authorities.find(
      (each) => hasBegun(each, nowMs) && issuer.canSignWith(authorityKey) && reader.fits(each, authorityKey),
    );
    if (current === undefined || renewalMs(current) <= nowMs) {
      if (pauseMs > 0) return this.#postponeSecretWrite(pauseMs);
      // After a loss of the Secret, only the bundles still have the authority of the certificate that is being served.
      const known = authorities.length > 0 ? authorities : this.#authoritiesOf(objects, nowMs);
      await this.#createAuthority(secret, known, issuer, signal);
      return 0;
    }
    const repairPauseMs = await this.#publish(authorities, objects, signal);
    const trustedForMs = this.#observeTrust(current, objects);
    const isUsable =
      serving !== undefined &&
      hasBegun(serving, nowMs) &&
      reader.fits(serving, contents.key) &&
      reader.isIssuedBy(serving, current) &&
      names.every((name) => serving.names.includes(name));
    const nextMs = Math.min(renewalMs(current), ...authorities.map(({ notAfterMs }) => notAfterMs)) - nowMs;
    if (isUsable && renewalMs(serving) > nowMs)
      return Math.max(Math.min(nextMs, renewalMs(serving) - nowMs, repairPauseMs), 1);
    if (trustedForMs === undefined) return Math.max(Math.min(nextMs, repairPauseMs, slowWriteMs), 1);
    // If there has been no other authority, no API server can have trusted another certificate.
    const waitMs = authorities.length === 1 && serving === undefined ? 0 : this.#propagationMs - trustedForMs;
    if (waitMs > 0) return Math.max(Math.min(waitMs, nextMs), 1);
    if (pauseMs > 0) return this.#postponeSecretWrite(pauseMs);
    // Names of an operator of another version, which may run beside this one, stay until the next renewal.
    const kept = serving !== undefined && renewalMs(serving) > nowMs ? serving.names : [];
    await this.#issue(secret, { certificate: current.pem, key: authorityKey }, current, kept, issuer, signal);
    return 0;
  }

  async #createAuthority(
    secret: Secret,
    known: readonly Certificate[],
    issuer: CertificateIssuer,
    signal: AbortSignal,
  ): Promise<void> {
    const [notBeforeMs, notAfterMs] = this.#validity(this.#authorityLifetimeMs);
    const names = [this.#options.fieldManager];
    const { certificate, key } = await issuer.createAuthority({ notBeforeMs, notAfterMs, names });
    const bundle = [certificate, ...known.slice(0, maxAuthorities - 1).map(({ pem }) => pem)].join('');
    await this.#write(secret, { 'ca.crt': bundle, 'ca.key': key }, signal);
    this.#log.info({ notAfter: new Date(notAfterMs), others: known.length }, 'created an authority for webhooks');
  }

  async #issue(
    secret: Secret,
    authority: { readonly certificate: string; readonly key: string },
    { notAfterMs: authorityEndsMs }: Certificate,
    keptNames: readonly string[],
    issuer: CertificateIssuer,
    signal: AbortSignal,
  ): Promise<void> {
    const [notBeforeMs, endsMs] = this.#validity(this.#servingLifetimeMs);
    const notAfterMs = Math.min(endsMs, authorityEndsMs);
    const names = [...new Set([...this.#options.names, ...keptNames])];
    const { certificate, key } = await issuer.issue({ notBeforeMs, notAfterMs, names }, authority);
    await this.#write(secret, { 'tls.crt': certificate, 'tls.key': key }, signal);
    this.#log.info({ notAfter: new Date(notAfterMs), names }, 'issued a certificate for webhooks');
  }

  #validity(lifetimeMs: number): readonly [notBeforeMs: number, notAfterMs: number] {
    const nowMs = Date.now();
    return [nowMs - Math.min(toleratedSkewMs, lifetimeMs / 10), nowMs + lifetimeMs];
  }

  /** A Conflict if the Secret has changed since it was read. Members with other names stay. */
  async #write(
    { metadata: { uid, resourceVersion } }: Secret,
    texts: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<void> {
    const body = { metadata: { uid, resourceVersion }, data: toSecretData(texts) };
    this.#secretWrites = withNow(this.#secretWrites);
    await this.#client.patch(Secret, this.#options.secret, { type: 'merge', body }, { signal });
  }

  /** Publishes the authorities of a provided Secret, and keeps those that were trusted before until they expire. */
  async #publishProvided(
    contents: CertificateSecret,
    objects: readonly TargetObject[],
    signal: AbortSignal,
  ): Promise<number> {
    const nowMs = Date.now();
    const provided = unexpired(contents.authorities, nowMs);
    if (provided.length === 0) {
      this.#report('the provided Secret has no `ca.crt` that is valid now: the `caBundle` of webhooks stays as it is');
      return checkEveryMs;
    }
    this.#problem = undefined;
    const isProvided = ({ pem }: Certificate): boolean => provided.some((each) => each.pem === pem);
    const others = this.#authoritiesOf(objects, nowMs).filter((each) => !isProvided(each));
    return this.#publish([...provided, ...others].slice(0, maxAuthorities), objects, signal);
  }

  /**
   * Writes the authorities into the bundles that differ.
   *
   * @returns after how many milliseconds bundles may be repaired that this call has left as they are.
   */
  async #publish(
    authorities: readonly Certificate[],
    objects: readonly TargetObject[],
    signal: AbortSignal,
  ): Promise<number> {
    const caBundle = toBase64(authorities.map(({ pem }) => pem).join(''));
    const differing = objects.filter(({ target, object }) =>
      target.bundlesOf(object).some((each) => each !== caBundle),
    );
    if (differing.length === 0) return checkEveryMs;
    const pauseMs = this.#published === caBundle ? this.#pauseBeforeRepair(differing) : 0;
    if (pauseMs > 0) return pauseMs;
    this.#published = caBundle;
    const results = await Promise.allSettled(differing.map((each) => this.#apply(each, caBundle, signal)));
    for (const result of results) if (result.status === 'rejected') throw result.reason;
    // The next pass reads the targets again: only what the API server returns counts as trusted.
    return 1;
  }

  /** Two clients that undo each other's writes must not keep the API server busy. */
  #pauseBeforeRepair(differing: readonly TargetObject[]): number {
    const pauseMs = pauseBefore(this.#repairs, promptRepairs);
    if (pauseMs > 0) {
      const targets = differing.map(({ target }) => `${target.kind.kind} ${target.name}`);
      this.#log.warn({ targets }, 'another client overwrites `caBundle` again and again: repairing it after pauses');
      return pauseMs;
    }
    this.#repairs = withNow(this.#repairs);
    return 0;
  }

  /** A tool that removes what is written, or a certificate that is never usable, must not keep the API server busy. */
  #postponeSecretWrite(pauseMs: number): number {
    this.#log.warn({}, 'the Secret of the certificates needs to be written again and again: writing it after pauses');
    return pauseMs;
  }

  async #apply({ target, object }: TargetObject, caBundle: string, signal: AbortSignal): Promise<void> {
    const { uid, resourceVersion } = object.metadata;
    await this.#client.apply(target.kind, target.manifest(object, caBundle), {
      // Another client's value, such as an empty one of a chart, must not keep the webhook from being called.
      force: true,
      fieldManager: this.#options.fieldManager,
      uid,
      resourceVersion,
      signal,
    });
    this.#log.info({ kind: target.kind.kind, object: target.name }, 'wrote the authorities of webhooks');
  }

  /** @returns for how long every target has trusted the authority; undefined if one does not. */
  #observeTrust(authority: Certificate, objects: readonly TargetObject[]): number | undefined {
    const { reader } = this.#options;
    const isTrusted = objects.every(({ target, object }) =>
      target
        .bundlesOf(object)
        .every((bundle) =>
          reader.read(Buffer.from(bundle ?? '', 'base64').toString()).some(({ pem }) => pem === authority.pem),
        ),
    );
    if (!isTrusted) {
      this.#trusted = undefined;
      return undefined;
    }
    if (this.#trusted?.pem !== authority.pem) this.#trusted = { pem: authority.pem, sinceMs: performance.now() };
    return performance.now() - this.#trusted.sinceMs;
  }

  /** The valid authorities in the bundles, without duplicates. */
  #authoritiesOf(objects: readonly TargetObject[], nowMs: number): readonly Certificate[] {
    const bundles = objects.flatMap(({ target, object }) => target.bundlesOf(object));
    const certificates = bundles.flatMap((bundle) =>
      this.#options.reader.read(Buffer.from(bundle ?? '', 'base64').toString()),
    );
    return [...new Map(unexpired(certificates, nowMs).map((each) => [each.pem, each])).values()];
  }

  async #readTargets(signal: AbortSignal): Promise<readonly TargetObject[]> {
    const found = this.#options.targets.map(async (target) => {
      const object = await getIfPresent(this.#client, target.kind, { name: target.name }, { signal });
      return object === undefined ? [] : [{ target, object }];
    });
    return (await Promise.all(found)).flat();
  }

  /** Calls `wake` for each change of the Secret and of a target. Resolves when the watches have ended. */
  async #watch(wake: () => void, signal: AbortSignal): Promise<void> {
    const { secret, targets } = this.#options;
    const [client, log] = [this.#client, this.#log];
    const fieldSelector = `metadata.name=${secret.name}`;
    const own = new Informer({ client, log, kind: Secret, namespaces: [secret.namespace], fieldSelector });
    const others = targets.map(
      ({ kind, name }) => new Informer({ client, log, kind, fieldSelector: `metadata.name=${name}` }),
    );
    own.addHandler(wake);
    for (const informer of others) informer.addHandler(wake);
    await Promise.all([own, ...others].map((informer) => informer.run(signal)));
  }

  #report(problem: string): void {
    if (this.#problem !== problem) this.#log.warn({}, problem);
    this.#problem = problem;
  }
}

const unexpired = (certificates: readonly Certificate[], nowMs: number): readonly Certificate[] =>
  certificates.filter(({ notAfterMs }) => notAfterMs > nowMs);

/** Whether a certificate is valid already. One that was created while a clock was ahead may be valid only in years. */
const hasBegun = ({ notBeforeMs }: Certificate, nowMs: number): boolean => notBeforeMs <= nowMs;

/** Returns after how many milliseconds another write is due. 0: at once. */
function pauseBefore(writes: readonly number[], prompt: number): number {
  const nowMs = performance.now();
  if (writes.filter((ms) => nowMs - ms < paceWindowMs).length < prompt) return 0;
  return Math.max(slowWriteMs - (nowMs - (writes.at(-1) ?? nowMs)), 0);
}

/** Adds now, and forgets what no longer counts. */
function withNow(writes: readonly number[]): readonly number[] {
  const nowMs = performance.now();
  return [...writes.filter((ms) => nowMs - ms < paceWindowMs), nowMs];
}
