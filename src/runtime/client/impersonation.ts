import type { AuthenticationHeaders } from './connection.ts';

/** As whom a kubeconfig's user acts (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation). */
export interface Impersonation {
  readonly as?: string | null;
  readonly 'as-uid'?: string | null;
  readonly 'as-groups'?: readonly string[] | null;
  readonly 'as-user-extra'?: Readonly<Record<string, readonly string[]>> | null;
}

/**
 * The headers that say so; none for a user who acts as itself.
 *
 * @throws Error where groups, a uid or extra fields have no user to go with: the API server refuses each request then.
 */
export function impersonationHeaders(user: Impersonation): AuthenticationHeaders {
  const { as, 'as-uid': uid, 'as-groups': groups, 'as-user-extra': extra } = user;
  if (!as) {
    if (uid || groups?.length || Object.keys(extra ?? {}).length > 0)
      throw new Error('its user has "as-uid", "as-groups" or "as-user-extra", but no "as"');
    return {};
  }
  const extras = Object.entries(extra ?? {}).map(
    ([key, values]) => [`Impersonate-Extra-${escaped(key)}`, values] as const,
  );
  return {
    'Impersonate-User': as,
    ...(uid && { 'Impersonate-Uid': uid }),
    ...(groups?.length && { 'Impersonate-Group': groups }),
    ...Object.fromEntries(extras),
  };
}

/** A header's name has only some of ASCII's characters; the API server unescapes it (RFC 3986). */
const escaped = (key: string): string =>
  encodeURIComponent(key).replace(/[()]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
