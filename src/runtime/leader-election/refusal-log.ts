import { isForbidden } from '../client/index.ts';
import type { Logger } from '../observability/index.ts';

/**
 * A logger to which a refusal (403) is no warning to repeat: it is told of each, and passes on all else.
 *
 * @param refused is called instead.
 */
export function withoutRefusals(log: Logger, refused: (error: unknown) => void): Logger {
  return {
    debug: (details, message) => log.debug(details, message),
    info: (details, message) => log.info(details, message),
    warn: (details, message) => {
      if ('err' in details && isForbidden(details.err)) refused(details.err);
      else log.warn(details, message);
    },
    error: (details, message) => log.error(details, message),
    child: (bindings) => withoutRefusals(log.child(bindings), refused),
  };
}
