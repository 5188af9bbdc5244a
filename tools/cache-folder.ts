import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/** The project's folder in the user's cache. A relative XDG_CACHE_HOME is passed over, as its specification says. */
export function cacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const base = environment.XDG_CACHE_HOME;
  return join(base && isAbsolute(base) ? base : join(homedir(), '.cache'), 'echoperator');
}
