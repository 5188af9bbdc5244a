import type { Secret } from '../built-in-kinds/built-in-kinds.ts';
import type { Certificate, CertificateReader } from './pki.ts';

/** The contents of a Secret with certificates. The names of its members are those of cert-manager and of `kubectl`. */
export interface CertificateSecret {
  /** `ca.crt`: the authorities to trust, the one of `authorityKey` first. */
  readonly authorities: readonly Certificate[];
  /** `ca.key`. Absent in a Secret that somebody else provides. */
  readonly authorityKey: string;
  /** The first certificate of `tls.crt`, which is the one to serve. */
  readonly serving: Certificate | undefined;
  /** `tls.crt`, with the certificates of intermediate authorities. */
  readonly chain: string;
  /** `tls.key` */
  readonly key: string;
}

/** Reads the Secret. A member that is absent or unreadable is empty. */
export function readCertificateSecret({ data = {} }: Secret, reader: CertificateReader): CertificateSecret {
  const text = (member: string): string => Buffer.from(data[member] ?? '', 'base64').toString();
  const chain = text('tls.crt');
  return {
    authorities: reader.read(text('ca.crt')),
    authorityKey: text('ca.key'),
    serving: reader.read(chain)[0],
    chain,
    key: text('tls.key'),
  };
}

/** Encodes members of the Secret. */
export const toSecretData = (texts: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(texts).map(([member, text]) => [member, toBase64(text)]));

export const toBase64 = (text: string): string => Buffer.from(text).toString('base64');
