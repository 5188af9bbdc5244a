import type { AuthenticationHeaders } from './connection.ts';

/**
 * The impersonation fields of a kubeconfig user
 * (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation).
 */
export interface Impersonation {
  readonly as?: string | null;
  readonly 'as-uid'?: string | null;
  readonly 'as-groups'?: readonly string[] | null;
  readonly 'as-user-extra'?: Readonly<Record<string, readonly string[]>> | null;
}

/**
 * Returns the impersonation headers; empty if the user impersonates nobody.
 *
 * @throws Error if there are groups, a uid or extra fields without a user: the API server refuses such requests.
 */
export function impersonationHeaders(user: Impersonation): AuthenticationHeaders {
  const { as, 'as-uid': uid, 'as-groups': groups, 'as-user-extra': extra } = user;
  if (!as) {
    if (uid || groups?.length || Object.keys(extra ?? {}).length > 0)
      throw new Error('the user has "as-uid", "as-groups" or "as-user-extra", but no "as"');
    return {};
  }
  const extras = Object.entries(extra ?? {}).map(
    ([key, values]) => [`Impersonate-Extra-${percentEncode(key)}`, values] as const,
  );
  return {
    'Impersonate-User': as,
    ...(uid && { 'Impersonate-Uid': uid }),
    ...(groups?.length && { 'Impersonate-Group': groups }),
    ...Object.fromEntries(extras),
  };
}

/** Percent-encodes characters that a header name must not contain. The API server decodes the name (RFC 3986). */
const percentEncode = (key: string): string =>
  encodeURIComponent(key).replace(/[()]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
