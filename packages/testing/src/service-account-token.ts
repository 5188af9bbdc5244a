import { sign } from 'node:crypto';

/** The ServiceAccount and the validity of a token. */
export interface ServiceAccountToken {
  /** The API server's flag `--service-account-issuer`, also the token's audience. */
  readonly issuer: string;
  readonly namespace: string;
  readonly name: string;
  /** The uid of the ServiceAccount. It must exist, or the API server rejects the token. */
  readonly uid: string;
  /**
   * How long the API server accepts the token from now on. It accepts a used token for up to 10 s more, because it
   * caches successful authentications.
   */
  readonly validForMs: number;
}

/** The API server accepts a token for this time after its expiry (go-jose's default leeway). */
const leewaySeconds = 60;

/**
 * Signs a service account token. Unlike a TokenRequest, whose minimum is 10 minutes, it may be valid for seconds.
 *
 * @param key the private RSA key, in PEM, of the API server's `--service-account-signing-key-file`.
 */
export function signServiceAccountToken(token: ServiceAccountToken, key: string): string {
  const { issuer, namespace, name, uid, validForMs } = token;
  const nowSeconds = Math.floor(Date.now() / 1000);
  const claims = {
    iss: issuer,
    aud: [issuer],
    sub: `system:serviceaccount:${namespace}:${name}`,
    iat: nowSeconds - 2 * leewaySeconds,
    nbf: nowSeconds - 2 * leewaySeconds,
    exp: Math.ceil(Date.now() / 1000 + validForMs / 1000) - leewaySeconds,
    'kubernetes.io': { namespace, serviceaccount: { name, uid } },
  };
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}`;
  return `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`;
}
