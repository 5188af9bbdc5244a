import { desiredStatus, patchStatusIfPresent, type ReportingObject } from '../runtime/controller/index.ts';
import {
  defineReasons,
  done,
  findCondition,
  type Kind,
  type Manager,
  OutcomeReporter,
  predicates,
} from '../runtime/index.ts';
import { type ControllerSettings, scopeOf } from './controller-settings.ts';
import { allow, type PolicyRule } from './permissions.ts';

const reason = 'ControllerDisabled';

const reasons = defineReasons({
  [reason]: { ready: 'False', event: 'Warning', meaning: 'The controller of this kind is disabled.' },
});

/**
 * Adds a controller that replaces a disabled one. In the condition `Ready` of each object it reports that the controller is disabled, and
 * whether the object's deletion waits for that. Does nothing if the CRD is not installed.
 */
export function addDisabledController(
  manager: Manager,
  kind: Kind<ReportingObject>,
  options: Pick<ControllerSettings, 'events' | 'namespaces'> & {
    /** The setting that enables the controller: `controllers.pet.enabled`. */
    readonly setting: string;
    /** The finalizer that only the disabled controller removes. */
    readonly finalizer?: string | undefined;
  },
): void {
  const { events } = options;
  const objects = manager.informer(kind, { optional: true, ...scopeOf(options) }).store;
  const reporter = new OutcomeReporter({ kind, reasons, events });
  manager.controller(kind, {
    predicate: predicates.ignoringConditionMessages,
    reconcile: async (key, context) => {
      const object = objects.get(key);
      if (object === undefined) return done;
      const message = disabledMessage(kind, object, options);
      const reported = findCondition(object.status?.conditions, 'Ready');
      // Keep `status.observedGeneration`: it belongs to the status that the kind's own controller has written.
      const { conditions } = desiredStatus(reasons, object, { reason, message }, new Date());
      const written = await patchStatusIfPresent(context.client, kind, object, { conditions: [...(conditions ?? [])] });
      // The message changes when a deletion begins to wait.
      if (written === undefined || (reported?.reason === reason && reported.message === message)) return done;
      reporter.recordEvent(object, { type: 'Warning', reason, note: message }, context);
      return done;
    },
  });
}

/** The message of an object whose controller is disabled. */
export function disabledMessage(
  kind: Kind,
  { metadata }: ReportingObject,
  { setting, finalizer }: { readonly setting: string; readonly finalizer?: string | undefined },
): string {
  const disabled = `the controller of ${kind.kind} is disabled`;
  const advice = `Enable it with helm upgrade RELEASE CHART --reset-then-reuse-values --set ${setting}=true`;
  const isWaiting = metadata.deletionTimestamp !== undefined && metadata.finalizers?.includes(finalizer ?? '');
  return isWaiting
    ? `${disabled}: the deletion waits until it is enabled, or until you remove the finalizer ${finalizer}, which leaves behind what the controller would delete. ${advice}`
    : `${disabled}: nothing is created, changed or deleted for this object. ${advice}`;
}

/** The permissions of the controller that replaces a disabled one. */
export const disabledPermissions = (kind: Kind): readonly PolicyRule[] => [
  allow(['get', 'list', 'watch'], kind),
  allow(['patch'], kind, 'status'),
];
