import { createPrivateKey, KeyObject, randomBytes, type webcrypto, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import type { CertificateIssuer, CertificateRequest, KeyPair } from './pki.ts';

/** The packages that only an operator needs that creates its certificates itself. */
const packages = '@peculiar/x509 reflect-metadata';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

type X509 = typeof import('@peculiar/x509');

/** Thrown if an operator should create its certificates and the library for them is not installed. */
export class MissingPackageError extends Error {
  override readonly name = 'MissingPackageError';
}

/**
 * Returns an issuer that uses `@peculiar/x509`. Loads the library, which is an optional peer dependency.
 *
 * @throws MissingPackageError with the command that installs it.
 */
export async function loadX509Issuer(): Promise<CertificateIssuer> {
  const x509 = await loadX509();
  return {
    canSignWith: (key) => {
      try {
        const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(key);
        return asymmetricKeyType === 'ec' && asymmetricKeyDetails?.namedCurve === 'prime256v1';
      } catch {
        return false;
      }
    },
    createAuthority: (request) => createAuthority(x509, request),
    issue: (request, authority) => issue(x509, request, authority),
  };
}

async function loadX509(): Promise<X509> {
  try {
    // The library's dependency injection needs it, and does not import it itself.
    await import('reflect-metadata');
    const module: X509 & { readonly default?: X509 } = await import('@peculiar/x509');
    // A bundler that splits code, such as esbuild, gives a CommonJS package only a default export.
    return module.default ?? module;
  } catch (cause) {
    throw new MissingPackageError(
      `certificates of webhooks need two more packages: npm install ${packages}. Or provide a Secret with certificates`,
      { cause },
    );
  }
}

async function createAuthority(x509: X509, request: CertificateRequest): Promise<KeyPair> {
  const keys = await newKeys();
  const serialNumber = newSerialNumber();
  // The serial number makes the names of two authorities differ: a client then knows which one has signed.
  const name = `CN=${request.names.join(' ')} ${serialNumber.slice(0, 8)}`;
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber,
    subject: name,
    issuer: name,
    notBefore: new Date(request.notBeforeMs),
    notAfter: new Date(request.notAfterMs),
    publicKey: keys.publicKey,
    signingKey: keys.privateKey,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: toText(certificate.toString('pem')), key: privateKeyOf(keys) };
}

async function issue(x509: X509, request: CertificateRequest, authority: KeyPair): Promise<KeyPair> {
  const keys = await newKeys();
  const issuer = new x509.X509Certificate(authority.certificate);
  const signingKey = createPrivateKey(authority.key).toCryptoKey(algorithm, false, ['sign']);
  const issuerPublicKey = new X509Certificate(authority.certificate).publicKey.toCryptoKey(algorithm, true, ['verify']);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: newSerialNumber(),
    // A subject is not needed beside the names, and a common name is limited to 64 characters.
    subject: '',
    issuer: issuer.subjectName,
    notBefore: new Date(request.notBeforeMs),
    notAfter: new Date(request.notAfterMs),
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      // RFC 5280, 4.2.1.6: critical if the subject is empty.
      new x509.SubjectAlternativeNameExtension(
        request.names.map((name) => ({ type: isIP(name) === 0 ? 'dns' : 'ip', value: name }) as const),
        true,
      ),
      await x509.AuthorityKeyIdentifierExtension.create(issuerPublicKey),
    ],
  });
  return { certificate: toText(certificate.toString('pem')), key: privateKeyOf(keys) };
}

const newKeys = (): Promise<webcrypto.CryptoKeyPair> => crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);

const privateKeyOf = ({ privateKey }: webcrypto.CryptoKeyPair): string =>
  KeyObject.from(privateKey).export({ type: 'pkcs8', format: 'pem' }).toString();

/** 16 random bytes whose first one is between 0x10 and 0x7f: a positive number of constant length. */
function newSerialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = 0x10 + ((bytes[0] ?? 0) % 0x70);
  return bytes.toString('hex');
}

const toText = (pem: string): string => `${pem.replaceAll('\r', '').trimEnd()}\n`;
