import { desiredStatus, type ReportingObject, writeStatus } from '../../runtime/controller/index.ts';
import {
  defineReasons,
  done,
  findCondition,
  type Kind,
  type Manager,
  OutcomeReporter,
  predicates,
} from '../../runtime/index.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { may, type PolicyRule } from '../permissions.ts';

const reason = 'ControllerDisabled';

const reasons = defineReasons({
  [reason]: { ready: 'False', event: 'Warning', meaning: 'The controller of the kind is switched off.' },
});

/**
 * Adds a controller that takes the place of one that is switched off: it reports just that in the condition `Ready` of each
 * object, also for those who wait for an object to go. Does nothing if the kind is not installed.
 */
export function addDisabledController(
  manager: Manager,
  kind: Kind<ReportingObject>,
  options: Pick<ControllerSettings, 'events' | 'namespaces'> & {
    /** What switches it on, in words: `controllers.pet.enabled`. */
    readonly setting: string;
  },
): void {
  const { events, setting } = options;
  const objects = manager.informer(kind, { optional: true, ...scopeOf(options) }).store;
  const message = `the controller of ${kind.kind} is switched off (${setting}): nothing outside is written or removed`;
  const reporter = new OutcomeReporter({ kind, reasons, events });
  manager.controller(kind, {
    predicate: predicates.ignoringConditionMessages,
    reconcile: async (key, context) => {
      const object = objects.get(key);
      if (object === undefined) return done;
      // `status.observedGeneration` stays: it speaks of the status that the kind's own controller has written.
      const { conditions } = desiredStatus(reasons, object, { reason, message }, new Date());
      const written = await writeStatus(context.client, kind, object, { conditions: [...(conditions ?? [])] });
      if (written === undefined || findCondition(object.status?.conditions, 'Ready')?.reason === reason) return done;
      reporter.tell(object, { type: 'Warning', reason, note: message }, context);
      return done;
    },
  });
}

/** What a disabled controller does in the cluster. */
export const disabledPermissions = (kind: Kind): readonly PolicyRule[] => [
  may(['get', 'list', 'watch'], kind),
  may(['patch'], kind, 'status'),
];
