import { desiredStatus, patchStatusIfPresent, type ReportingObject } from '../../runtime/controller/index.ts';
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
import { allow, type PolicyRule } from '../permissions.ts';

const reason = 'ControllerDisabled';

const reasons = defineReasons({
  [reason]: { ready: 'False', event: 'Warning', meaning: 'The controller of this kind is disabled.' },
});

/**
 * Adds a controller that replaces a disabled one: it reports in the condition `Ready` of each object that its controller is
 * disabled. That also explains why the deletion of an object with a finalizer waits. Does nothing if the CRD is not installed.
 */
export function addDisabledController(
  manager: Manager,
  kind: Kind<ReportingObject>,
  options: Pick<ControllerSettings, 'events' | 'namespaces'> & {
    /** The setting that enables the controller: `controllers.pet.enabled`. */
    readonly setting: string;
  },
): void {
  const { events, setting } = options;
  const objects = manager.informer(kind, { optional: true, ...scopeOf(options) }).store;
  const message = `the controller of ${kind.kind} is disabled (${setting}): nothing is written or deleted outside of the cluster`;
  const reporter = new OutcomeReporter({ kind, reasons, events });
  manager.controller(kind, {
    predicate: predicates.ignoringConditionMessages,
    reconcile: async (key, context) => {
      const object = objects.get(key);
      if (object === undefined) return done;
      // Keep `status.observedGeneration`: it belongs to the status that the kind's own controller has written.
      const { conditions } = desiredStatus(reasons, object, { reason, message }, new Date());
      const written = await patchStatusIfPresent(context.client, kind, object, { conditions: [...(conditions ?? [])] });
      if (written === undefined || findCondition(object.status?.conditions, 'Ready')?.reason === reason) return done;
      reporter.recordEvent(object, { type: 'Warning', reason, note: message }, context);
      return done;
    },
  });
}

/** The permissions of the controller that replaces a disabled one. */
export const disabledPermissions = (kind: Kind): readonly PolicyRule[] => [
  allow(['get', 'list', 'watch'], kind),
  allow(['patch'], kind, 'status'),
];
