/**
 * Compares two resourceVersions of one resource: negative if `a` is older. They are decimal integers without leading
 * zeros, so the longer one is newer (KEP-5504, comparable resource versions).
 */
export function compareResourceVersions(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Whether a resourceVersion can be compared: an aggregated API server may use others. */
export const isComparable = (version: string): boolean => /^[1-9]\d{0,30}$/.test(version);
