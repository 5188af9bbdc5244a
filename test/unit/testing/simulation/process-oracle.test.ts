import { done, type KubeObject, owns } from '@echoperator/runtime';
import { ConfigMap } from '@echoperator/runtime/kinds';
import type { Scenario } from '@echoperator/testing';
import { type ExploreOptions, explore } from '@echoperator/testing/simulation';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { Overlay } from '../../../../packages/runtime/src/cache/overlay.ts';
import { Store } from '../../../../packages/runtime/src/cache/store.ts';
import { ReconcileRequests } from '../../../../packages/runtime/src/controller/reconcile-requests.ts';
import { Widget } from '../../../integration/environment/mechanism-scenarios.ts';
import { simulatedScenario } from '../../../integration/environment/simulated-scenarios.ts';

/** Returns the first line of what a scenario's exploration reports. */
const reported = async (options: Partial<ExploreOptions> & Pick<ExploreOptions, 'scenario'>): Promise<string> =>
  explore({ runs: 60, shortens: false, ...options }).then(
    () => 'nothing',
    (error: Error) => error.message.split('\n', 1)[0] ?? '',
  );

afterEach(() => {
  jest.restoreAllMocks();
});

describe('a defect of the runtime is reported', () => {
  test('a cache keeps an object that was deleted', async () => {
    jest.spyOn(Store.prototype, 'delete').mockReturnValue(undefined);
    expect(await reported(simulatedScenario('two-controllers'))).toMatch(
      /the cache shows ConfigMap hello, which the process has deleted/,
    );
  });

  test('a cache lacks a change', async () => {
    const { set } = Store.prototype;
    jest.spyOn(Store.prototype, 'set').mockImplementation(function (this: Store<KubeObject>, object: KubeObject) {
      return this.get(object.metadata) === undefined ? set.call(this, object) : undefined;
    });
    expect(await reported(simulatedScenario('pruned'))).toMatch(
      /does not show Widget hello|has Widget hello at version/,
    );
  });

  test('a cache goes back in time', async () => {
    // A response counts for newer than what the watch has delivered.
    const { show } = Overlay.prototype;
    jest.spyOn(Overlay.prototype, 'show').mockImplementation(function (this: Overlay<KubeObject>, ...args) {
      const { hasReached } = this;
      this.hasReached = () => false;
      const deltas = show.apply(this, args);
      this.hasReached = hasReached;
      return deltas;
    });
    expect(await reported(simulatedScenario('two-controllers'))).toMatch(
      /the cache goes back in time|was gone, and comes back/,
    );
  });

  test('a cache does not show what a reconcile has written', async () => {
    jest.spyOn(Overlay.prototype, 'show').mockReturnValue([]);
    expect(await reported(simulatedScenario('pruned'))).toMatch(
      /the cache does not show \w+ hello at version \d+, which the process has written/,
    );
  });

  test('a cache shows what a reconcile has deleted', async () => {
    jest.spyOn(Overlay.prototype, 'hide').mockReturnValue([]);
    expect(await reported(simulatedScenario('two-controllers'))).toMatch(
      /shows ConfigMap hello, which the process has deleted/,
    );
  });

  test('a key is handed out while a request has no response', async () => {
    jest.spyOn(ReconcileRequests.prototype, 'end').mockImplementation((callback) => callback());
    expect(await reported(simulatedScenario('two-controllers'))).toMatch(
      /a reconcile of observer default\/hello begins while a request of the one before has no response/,
    );
  });
});

describe('a change by another client that no reconcile follows', () => {
  /** Its controller does not hear of some changes of its child. */
  const deaf = (type: 'modified' | 'deleted'): Scenario => ({
    name: 'deaf',
    kinds: [Widget, ConfigMap],
    addControllers: ({ manager }, namespace) => {
      const scope = { namespaces: [namespace] };
      manager.informer(Widget, scope);
      manager.informer(ConfigMap, scope);
      const watches = [owns(Widget, ConfigMap, { predicate: (delta) => delta.type !== type })];
      manager.controller(Widget, { watches, reconcile: async () => done });
    },
    steps: {
      create: async ({ client, namespace }) => {
        const { metadata } = await client.create(Widget, { metadata: { namespace, name: 'hello' }, spec: { size: 1 } });
        const { uid, name } = metadata;
        const owner = { apiVersion: 'example.com/v1', kind: 'Widget', name, uid, controller: true };
        await client.create(ConfigMap, { metadata: { namespace, name, ownerReferences: [owner] } });
      },
      edit: ({ client, namespace }) =>
        client.patch(ConfigMap, { namespace, name: 'hello' }, { type: 'merge', body: { data: { edited: 'yes' } } }),
      'delete-child': ({ client, namespace }) => client.delete(ConfigMap, { namespace, name: 'hello' }),
      delete: ({ client, namespace }) => client.delete(Widget, { namespace, name: 'hello' }),
    },
  });

  test('is reported: a change of a child', async () => {
    expect(await reported({ scenario: deaf('modified') })).toMatch(
      /^after step edit, widget has not reconciled default\/hello after user changed ConfigMap hello: MODIFIED at version/,
    );
  });

  test('is reported: a deletion of a child', async () => {
    expect(await reported({ scenario: deaf('deleted') })).toMatch(
      /^after step delete-child, widget has not reconciled default\/hello after user deleted ConfigMap hello/,
    );
  });

  test('is not reported if it may be missed', async () => {
    const mayMiss: ExploreOptions['mayMiss'] = ({ controller, kind, type, previous }) =>
      controller === 'widget' && kind === 'ConfigMap' && type === 'MODIFIED' && previous !== undefined;
    expect(await reported({ scenario: deaf('modified'), mayMiss })).toBe('nothing');
  });
});
