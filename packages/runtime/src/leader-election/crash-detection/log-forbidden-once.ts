import { isForbidden } from '../../client/api-error.ts';
import type { Logger } from '../../shared/logger.ts';

const podsForbidden = 'not allowed to read pods: the crash of a leader is noticed only when its lease expires';

/**
 * A logger for watches of pods that does not repeat a missing permission: it logs the first 403 as a warning and later
 * ones at debug level. It passes all other lines on unchanged.
 */
export function logForbiddenOnce(log: Logger): Logger {
  let isLogged = false;
  const logForbidden = (err: unknown): void => {
    if (isLogged) log.debug({ err }, podsForbidden);
    else log.warn({ err }, podsForbidden);
    isLogged = true;
  };
  const wrap = (inner: Logger): Logger => ({
    debug: (details, message) => inner.debug(details, message),
    info: (details, message) => inner.info(details, message),
    warn: (details, message) => {
      if ('err' in details && isForbidden(details.err)) logForbidden(details.err);
      else inner.warn(details, message);
    },
    error: (details, message) => inner.error(details, message),
    child: (bindings) => wrap(inner.child(bindings)),
  });
  return wrap(log);
}
