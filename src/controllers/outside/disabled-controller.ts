import {
  done,
  ignoringConditionMessages,
  type Kind,
  type KubeObject,
  type Manager,
  type StandardStatus,
  setCondition,
} from '../../runtime/index.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { may, type PolicyRule } from '../permissions.ts';
import { reportReady } from '../report-ready.ts';

type Reporting = KubeObject & { readonly status?: StandardStatus };

const reason = 'ControllerDisabled';

/**
 * Adds, in the place of a kind's controller that is switched off, one that says just that on each object, in the condition
 * `Ready`: whoever makes one, or waits for one to go, would else wait in the dark. Does nothing where the kind is missing.
 */
export function addDisabledController(
  manager: Manager,
  kind: Kind<Reporting>,
  options: Pick<ControllerSettings, 'events' | 'namespaces'> & {
    /** What switches it on, in words: `controllers.pet.enabled`. */
    readonly setting: string;
  },
): void {
  const { events, setting } = options;
  const objects = manager.informer(kind, { optional: true, ...scopeOf(options) }).store;
  const message = `the controller of ${kind.kind} is switched off (${setting}): nothing outside is written or removed`;
  manager.controller(kind, {
    predicate: ignoringConditionMessages,
    reconcile: async (key, context) => {
      const object = objects.get(key);
      if (object === undefined) return done;
      const observedGeneration = object.metadata.generation ?? 0;
      const ready = { type: 'Ready', status: 'False', reason, message, observedGeneration } as const;
      const status = { conditions: setCondition(object.status?.conditions, ready, new Date()) };
      await reportReady(events, kind, object, { reason, message, isWarning: true, status }, context);
      return done;
    },
  });
}

/** What it does. */
export const disabledPermissions = (kind: Kind): readonly PolicyRule[] => [
  may(['get', 'list', 'watch'], kind),
  may(['patch'], kind, 'status'),
];
