import type { Config, ControllerName } from './config.ts';
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

/** One of the operator's controllers. */
export interface OperatorController {
  /** What its role has to allow. */
  readonly permissions: readonly PolicyRule[];
  add(operator: Pick<Operator, 'manager' | 'events' | 'applier'>, config: Config): void;
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

const shared = ({ numWorkers: workers, watchNamespaces: namespaces, resyncSeconds }: Config) => ({
  workers,
  namespaces,
  resyncEveryMs: resyncSeconds * 1000,
});

/** Adds the controllers that the config asks for. */
export function addControllers(operator: Pick<Operator, 'manager' | 'events' | 'applier'>, config: Config): void {
  for (const name of config.controllers) controllers[name].add(operator, config);
}
