import { sign } from 'node:crypto';

/** Whose token it is and how long the API server takes it. */
export interface ServiceAccountToken {
  /** The API server's flag `--service-account-issuer`, also the token's audience. */
  readonly issuer: string;
  readonly namespace: string;
  readonly name: string;
  /** Of the ServiceAccount: there must be one, or its tokens are refused. */
  readonly uid: string;
  /**
   * How long the API server takes it from now on. One that it has seen it takes for up to 10 s more, for so long it
   * remembers whom a token has proved.
   */
  readonly validForMs: number;
}

/** How long after its end the API server still takes a token (go-jose's default leeway). */
const leewaySeconds = 60;

/**
 * Signs a service account's token. A TokenRequest gives none for less than 10 minutes, and no test waits for so long.
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
