import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/**
 * Returns the project's folder in the user's cache. Ignores a relative XDG_CACHE_HOME, as the XDG specification
 * requires.
 */
export function cacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const base = environment.XDG_CACHE_HOME;
  return join(base && isAbsolute(base) ? base : join(homedir(), '.cache'), 'echoperator');
}
