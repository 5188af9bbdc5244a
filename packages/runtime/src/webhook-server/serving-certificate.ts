import { Secret } from '../built-in-kinds/built-in-kinds.ts';
import { Informer } from '../cache/informer.ts';
import type { Client } from '../client/client.ts';
import { keyString, type ObjectKey } from '../kind/object.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import { readCertificateSecret } from './certificate-secret.ts';
import type { Certificate, CertificateReader } from './pki.ts';
import type { WebhookServer } from './webhook-server.ts';

/** Options of {@link followCertificate}. */
export interface FollowCertificateOptions {
  readonly client: Client;
  readonly secret: Required<ObjectKey>;
  readonly reader: CertificateReader;
  readonly server: Pick<WebhookServer, 'setCertificate' | 'hasCertificate'>;
  /**
   * How long to serve the previous certificate if the next one is from an authority that the Secret did not have
   * before. The leader needs the time to add the authority to every `caBundle`.
   */
  readonly propagationMs: number;
  readonly log: Logger;
}

/**
 * Serves the certificate of the Secret, and each later one, until the signal aborts. Every replica runs it. If the
 * Secret is deleted, emptied or unreadable, the previous certificate is served on.
 */
export async function followCertificate(options: FollowCertificateOptions, signal: AbortSignal): Promise<void> {
  const { client, secret, reader, server, propagationMs, log: parentLog } = options;
  const log = parentLog.child({ secret: keyString(secret) });
  const fieldSelector = `metadata.name=${secret.name}`;
  const informer = new Informer({ client, log, kind: Secret, namespaces: [secret.namespace], fieldSelector });
  let served: string | undefined;
  let known: readonly Certificate[] = [];
  /** A certificate that is not served yet. */
  let deferred: { readonly pem: string; readonly abort: AbortController } | undefined;

  const serve = (certificate: Certificate, chain: string, key: string): void => {
    try {
      server.setCertificate({ certificate: chain, key, notAfterMs: certificate.notAfterMs });
      served = certificate.pem;
      log.info({ notAfter: new Date(certificate.notAfterMs), names: certificate.names }, 'serving a certificate');
    } catch {
      // The error of OpenSSL is not logged, because it may depend on the key.
      log.warn({}, 'the certificate of the Secret cannot be used: serving the previous one');
    }
  };

  const update = (object: Secret): void => {
    const { authorities, serving, chain, key } = readCertificateSecret(object, reader);
    if (serving !== undefined && serving.pem === deferred?.pem) return;
    deferred?.abort.abort();
    deferred = undefined;
    const isChanged = serving !== undefined && serving.pem !== served;
    if (isChanged && !reader.fits(serving, key)) {
      log.warn({}, 'the certificate of the Secret and its key do not match: serving the previous one');
      return;
    }
    const isKnown = authorities.length === 0 || known.some((each) => isChanged && reader.isIssuedBy(serving, each));
    if (isChanged && !isKnown && server.hasCertificate) {
      const abort = new AbortController();
      deferred = { pem: serving.pem, abort };
      const waiting = AbortSignal.any([signal, abort.signal]);
      log.info({ waitMs: propagationMs }, 'the next certificate is from a new authority: serving it later');
      void pause(propagationMs, waiting).then(() => {
        if (waiting.aborted) return;
        deferred = undefined;
        known = authorities;
        serve(serving, chain, key);
      });
      return;
    }
    known = authorities;
    if (isChanged) serve(serving, chain, key);
  };

  informer.addHandler((delta) => {
    if (delta.type !== 'deleted') update(delta.object);
  });
  await informer.run(signal);
}
