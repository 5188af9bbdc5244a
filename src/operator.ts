import { type Config, type ControllerName, controllerNames } from './config.ts';
import {
  addEchoController,
  addPodSetController,
  addScheduledEchoController,
  echoPermissions,
  type PolicyRule,
  podSetPermissions,
  scheduledEchoPermissions,
} from './controllers/index.ts';
import type { Operator } from './runtime/index.ts';

/** What controllers are given of the operator. */
type Parts = Pick<Operator, 'manager' | 'events' | 'applier' | 'elector' | 'metrics'>;

/** Closes what a controller has open outside of the cluster. To be called when nothing is reconciled any more. */
type Close = () => Promise<void>;

/** One of the operator's controllers. */
export interface OperatorController {
  /** What its role has to allow. */
  readonly permissions: readonly PolicyRule[];
  add(operator: Parts, config: Config): Close | undefined;
  /** What takes its place where it does not run. Absent: nothing, and the kind is not watched. */
  readonly disabled?: Pick<OperatorController, 'permissions'> & { add(operator: Parts, config: Config): void };
}

/** All of them. */
export const controllers: Readonly<Record<ControllerName, OperatorController>> = {
  echo: {
    permissions: echoPermissions,
    add: ({ manager, events }, config) => {
      addEchoController(manager, { events, image: config.echoImage, ...shared(config) });
    },
  },
  scheduledEcho: {
    permissions: scheduledEchoPermissions,
    add: ({ manager, events, applier }, config) => {
      addScheduledEchoController(manager, { events, applier, image: config.echoImage, ...shared(config) });
    },
  },
  podSet: {
    permissions: podSetPermissions,
    add: ({ manager, events, applier }, config) => {
      addPodSetController(manager, { events, applier, ...shared(config) });
    },
  },
};

const shared = ({ numWorkers: workers, watchNamespaces: namespaces }: Config) => ({ workers, namespaces });

/** Adds the controllers that the config asks for. */
export function addControllers(operator: Parts, config: Config): Close {
  const closes: Close[] = [];
  for (const name of controllerNames) {
    const { add, disabled } = controllers[name];
    const close = config.controllers.includes(name) ? add(operator, config) : undefined;
    if (close !== undefined) closes.push(close);
    if (!config.controllers.includes(name)) disabled?.add(operator, config);
  }
  return async () => {
    await Promise.all(closes.map((close) => close()));
  };
}
