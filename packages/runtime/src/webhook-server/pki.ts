import { isIP, SocketAddress } from 'node:net';

/** A certificate, as far as the rotation needs it. */
export interface Certificate {
  /** PEM text of this certificate alone, which ends in a line feed. */
  readonly pem: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  /** The DNS names and IP addresses that it is valid for. */
  readonly names: readonly string[];
}

/** PEM texts of a certificate and its private key. Never log it. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** A certificate to create. */
export interface CertificateRequest {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  /** For an authority: its common name. For a serving certificate: the DNS names and IP addresses. */
  readonly names: readonly string[];
}

/** Reads certificates. Nothing here throws for a text that is no certificate or no key. */
export interface CertificateReader {
  /** Returns the certificates of a PEM text. Skips what it cannot read. */
  read(pem: string): readonly Certificate[];
  /** Whether `key` is the private key of the certificate. */
  fits(certificate: Certificate, key: string): boolean;
  /** Whether the authority has signed the certificate. */
  isIssuedBy(certificate: Certificate, authority: Certificate): boolean;
}

/** Creates certificates with ECDSA keys of the curve P-256. */
export interface CertificateIssuer {
  /** Whether {@link issue} can sign with this key. */
  canSignWith(key: string): boolean;
  createAuthority(request: CertificateRequest): Promise<KeyPair>;
  issue(request: CertificateRequest, authority: KeyPair): Promise<KeyPair>;
}

/** Returns when a certificate should be renewed: after two thirds of its lifetime. */
export const renewalMs = ({ notBeforeMs, notAfterMs }: Certificate): number =>
  notBeforeMs + ((notAfterMs - notBeforeMs) * 2) / 3;

/** Returns a DNS name or an IP address in one form, so that names can be compared: an IPv6 address has several. */
export const canonicalName = (name: string): string =>
  isIP(name) === 6 ? new SocketAddress({ address: name, family: 'ipv6' }).address : name;
