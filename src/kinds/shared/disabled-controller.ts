import {
  defineReasons,
  done,
  type EventRecorder,
  findCondition,
  type Kind,
  keyString,
  type Manager,
  OutcomeReporter,
  type PolicyRule,
  predicates,
  requeueAfter,
} from '@echoperator/runtime';
import { allow, type ReportingObject } from '@echoperator/runtime/controller';

/** The reason of `Ready` of an object whose controller is disabled. */
export const controllerDisabled = 'ControllerDisabled';

/** The reason of `Ready` that the controller of {@link addDisabledController} reports. */
export const disabledReasons = defineReasons({
  [controllerDisabled]: {
    ready: 'False',
    event: 'Warning',
    // The message changes when a deletion begins to wait.
    recordsMessageChanges: true,
    meaning: 'The controller of this kind is disabled.',
  },
});

/**
 * Adds a controller that replaces a disabled one. In the condition `Ready` of each object it reports that the
 * controller is disabled, and whether the object's deletion waits for that. If another operator overwrites the report,
 * it yields, as {@link OverwrittenReports} says. Does nothing if the CRD is not installed, and never delays the start
 * of the others.
 */
export function addDisabledController(
  manager: Manager,
  kind: Kind<ReportingObject>,
  options: {
    readonly events: EventRecorder;
    /** Default: all. */
    readonly namespaces?: readonly string[] | undefined;
    /** The setting that enables the controller: `controllers.pet.enabled`. */
    readonly setting: string;
    /** The finalizer that only the disabled controller removes. */
    readonly finalizer?: string | undefined;
  },
): void {
  const { events, namespaces } = options;
  const objects = manager.informer(kind, {
    optional: true,
    delaysStart: false,
    ...(namespaces && { namespaces }),
  }).store;
  // `status.observedGeneration` belongs to the status that the kind's own controller has written.
  const reporter = new OutcomeReporter({ kind, reasons: disabledReasons, events, keepsObservedGeneration: true });
  const reports = new OverwrittenReports();
  manager.controller(kind, {
    // Two operators without the controller may word the message differently: the last one stays.
    predicate: predicates.ignoringConditionMessages,
    reconcile: async (key, context) => {
      const object = objects.get(key);
      if (object === undefined) {
        reports.forget(keyString(key));
        return done;
      }
      const message = disabledMessage(kind, object, options);
      const reported = findCondition(object.status?.conditions, 'Ready');
      const report = { key: keyString(key), uid: object.metadata.uid };
      if (reported?.reason !== controllerDisabled) {
        const { pauseMs, isFirst } = reports.pause(report, Date.now());
        if (isFirst) {
          context.log.warn(
            { reason: reported?.reason },
            'another operator reconciles this object, whose controller is disabled here: let only one watch its namespace',
          );
        }
        if (pauseMs > 0) return requeueAfter(pauseMs);
      }
      const result = await reporter.report(object, { reason: controllerDisabled, message }, context);
      reports.reported(report);
      return result;
    },
  });
}

const firstPauseMs = 60_000;
const maxPauseMs = 24 * 60 * 60_000;

/** Identifies a report: an object that is created again under the same name has another uid. */
interface ReportOn {
  readonly key: string;
  readonly uid: string;
}

/**
 * Says how long a report that was overwritten is not written again: a minute, and twice as long after each further
 * time, up to a day. Without a pause two operators that watch the same namespace, one with and one without the
 * controller, would overwrite each other's reports without end. The report comes back after the other operator has
 * gone. Other controllers first correct what another client overwrites, and pause only if that goes on; this one yields
 * at once, because the other operator reports what is true.
 */
export class OverwrittenReports {
  /** By key. The pause has no end until {@link pause} notices that the report was overwritten. */
  readonly #reports = new Map<string, { readonly uid: string; times: number; endMs: number | undefined }>();

  /** Remembers that the object now has the report. */
  reported({ key, uid }: ReportOn): void {
    const known = this.#reports.get(key);
    const times = known?.uid === uid ? known.times : 0;
    this.#reports.set(key, { uid, times, endMs: undefined });
  }

  /**
   * Call it for an object without the report.
   *
   * @returns the rest of the pause, and whether it is the object's first
   */
  pause({ key, uid }: ReportOn, nowMs: number): { readonly pauseMs: number; readonly isFirst: boolean } {
    const report = this.#reports.get(key);
    if (report?.uid !== uid) return { pauseMs: 0, isFirst: false };
    const isNoticed = report.endMs !== undefined;
    report.endMs ??= nowMs + Math.min(firstPauseMs * 2 ** report.times, maxPauseMs);
    if (!isNoticed) report.times += 1;
    return { pauseMs: Math.max(0, report.endMs - nowMs), isFirst: !isNoticed && report.times === 1 };
  }

  /** The object was deleted. */
  forget(key: string): void {
    this.#reports.delete(key);
  }
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
