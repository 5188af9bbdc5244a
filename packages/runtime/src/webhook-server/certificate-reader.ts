import { createPrivateKey, X509Certificate } from 'node:crypto';
import { type Certificate, type CertificateReader, canonicalName } from './pki.ts';

const pemCertificate = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----/g;

/** Reads certificates with Node's own parser, so that a replica does not load the library that creates them. */
export const certificateReader: CertificateReader = {
  read: (pem) => (pem.match(pemCertificate) ?? []).flatMap((text) => certificateOf(text)),
  fits: ({ pem }, key) => attempt(() => new X509Certificate(pem).checkPrivateKey(createPrivateKey(key))),
  isIssuedBy: (certificate, authority) =>
    attempt(() => {
      const issuer = new X509Certificate(authority.pem);
      const issued = new X509Certificate(certificate.pem);
      return issuer.ca && issued.checkIssued(issuer) && issued.verify(issuer.publicKey);
    }),
};

function certificateOf(text: string): readonly Certificate[] {
  try {
    const { validFromDate, validToDate, subjectAltName = '' } = new X509Certificate(text);
    return [
      {
        pem: `${text.replaceAll('\r', '')}\n`,
        notBeforeMs: validFromDate.getTime(),
        notAfterMs: validToDate.getTime(),
        names: subjectAltName
          .split(', ')
          .flatMap((name) => /^(?:DNS|IP Address):(.*)$/.exec(name)?.slice(1) ?? [])
          .map(canonicalName),
      },
    ];
  } catch {
    return [];
  }
}

function attempt(check: () => boolean): boolean {
  try {
    return check();
  } catch {
    return false;
  }
}
