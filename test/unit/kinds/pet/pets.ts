import type { Applier, Logger } from '@echoperator/runtime';
import type { ReconcilerEnvironment } from '../../../../packages/runtime/src/controller/object-reconciler.ts';

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };

/** Options of the controller, whose state a test provides. */
export const petOptions = { address: 'unused', tls: undefined, timeoutMs: 1000, workers: 1, resyncEveryMs: 1000 };

/** What the reconciles of a Pet do not use. */
export const bareEnvironment: Pick<ReconcilerEnvironment<unknown>, 'indexName' | 'applier' | 'gate' | 'log'> = {
  indexName: (index) => index,
  applier: {} as Applier,
  gate: { pass: () => {}, signal: new AbortController().signal },
  log: silent,
};
