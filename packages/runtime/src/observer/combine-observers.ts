import type { OperatorObserver } from './operator-observer.ts';

/** Returns an observer that passes each call to all these observers, in order. */
export function combineObservers(observers: readonly OperatorObserver[]): OperatorObserver | undefined {
  const [first, ...others] = observers;
  if (first === undefined || others.length === 0) return first;
  return {
    controller: (controller) => {
      const all = observers.map((observer) => observer.controller(controller));
      return {
        filtered: (key, cause) => {
          for (const each of all) each.filtered(key, cause);
        },
        started: (key, startedAtMs, queued, retries) => {
          const traces = all.map((each) => each.started(key, startedAtMs, queued, retries));
          return {
            requested: (request, sentAtMs) => {
              const requests = traces.map((trace) => trace.requested(request, sentAtMs));
              return {
                responded: (error) => {
                  for (const each of requests) each.responded(error);
                },
              };
            },
            unchanged: (kind, object) => {
              for (const trace of traces) trace.unchanged(kind, object);
            },
            differs: (fields) => {
              for (const trace of traces) trace.differs(fields);
            },
            reported: (reason) => {
              for (const trace of traces) trace.reported(reason);
            },
            ended: (outcome, failure, error, times) => {
              for (const trace of traces) trace.ended(outcome, failure, error, times);
            },
          };
        },
      };
    },
    controllerRemoved: (name) => {
      for (const observer of observers) observer.controllerRemoved(name);
    },
  };
}
