import { cleanedUp, customResourceDefinitions, permissions } from '@echoperator/runtime';
import { ConfigMap, Job, Node, Pod, Secret, Service } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { defineController } from '../../../../packages/runtime/src/controller/define-controller.ts';
import { Gadget } from '../../environment/gadgets.ts';

const reasons = { Made: { ready: 'True', event: 'Normal', meaning: 'All is there.' } } as const;
const reconcile = async () => undefined;
const group = Gadget.group;

const alone = defineController(Gadget, { name: 'alone', reasons, reconcile });
const owner = defineController(Gadget, {
  reasons,
  owns: [
    ConfigMap,
    { kind: Job, write: 'create', deletes: true },
    { kind: Service, write: 'none', deletes: true },
    { kind: Pod, write: 'none', adopts: true },
  ],
  refersTo: [{ kind: Secret, keys: () => [] }],
  watches: [{ kind: Node, keys: () => [] }],
  indexes: { byNode: { kind: Pod, values: () => [] } },
  permissions: [{ apiGroups: [''], resources: ['secrets', 'pods/log'], verbs: ['get'] }],
  finalizer: { name: 'test.example/parts', cleanUp: async () => cleanedUp },
  reconcile,
});

const rule = (apiGroup: string, resource: string, ...verbs: readonly string[]) => ({
  apiGroups: [apiGroup],
  resources: [resource],
  verbs,
});

test('a controller that only reports may read its kind and write its status', () => {
  expect(alone.permissions).toEqual([
    rule(group, 'gadgets', 'get', 'list', 'watch'),
    rule(group, 'gadgets/status', 'patch'),
  ]);
});

test('the rules of a controller follow from what it does to each kind', () => {
  expect(owner.permissions).toEqual([
    rule(group, 'gadgets', 'get', 'list', 'watch', 'patch'),
    rule(group, 'gadgets/status', 'patch'),
    rule(group, 'gadgets/finalizers', 'update'),
    rule('', 'configmaps', 'get', 'list', 'watch', 'create', 'patch'),
    rule('batch', 'jobs', 'get', 'list', 'watch', 'create', 'delete'),
    rule('', 'services', 'list', 'watch', 'delete'),
    rule('', 'pods', 'get', 'list', 'watch', 'patch'),
    rule('', 'secrets', 'get', 'list', 'watch'),
    rule('', 'nodes', 'list', 'watch'),
    rule('', 'pods/log', 'get'),
  ]);
});

test('the rules of several controllers have one rule for each resource, and those for Events', () => {
  const rules = permissions([alone, owner]);
  expect(rules.slice(0, owner.permissions.length)).toEqual(owner.permissions);
  expect(rules.slice(owner.permissions.length)).toEqual([rule('events.k8s.io', 'events', 'create', 'patch')]);
});

test('each controller has the CustomResourceDefinition of its kind', () => {
  expect(customResourceDefinitions([owner]).map(({ metadata }) => metadata.name)).toEqual(['gadgets.test.example']);
});
