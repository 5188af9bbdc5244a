import { describe, expect, test } from '@jest/globals';
import {
  findBuiltInKinds,
  type OpenApiDocument,
  renderBuiltInKinds,
} from '../../../tools/generate/generate-built-in-kinds.ts';

const operation = (kind: string): object => ({
  get: { 'x-kubernetes-group-version-kind': { kind } },
  parameters: [],
});
/** A document with these paths, each with the kind of its objects. */
const documentOf = (kinds: Readonly<Record<string, string>>): OpenApiDocument => ({
  paths: Object.fromEntries(
    Object.entries(kinds).map(([path, kind]) => [path, operation(kind) as Record<string, unknown>]),
  ),
});
const inNamespace = 'namespaces/{namespace}';
const find = (kinds: Readonly<Record<string, string>>, ...types: readonly string[]) =>
  findBuiltInKinds(documentOf(kinds), new Set(types));

describe('the kinds that are found', () => {
  test('are namespaced where a path has a namespace, whatever the order of the paths', () => {
    const paths = [`/apis/apps/v1/${inNamespace}/deployments`, '/apis/apps/v1/deployments'];
    for (const order of [paths, paths.toReversed()]) {
      expect(find(Object.fromEntries(order.map((path) => [path, 'Deployment'])), 'V1Deployment')).toEqual([
        {
          name: 'Deployment',
          objectType: 'V1Deployment',
          group: 'apps',
          version: 'v1',
          kind: 'Deployment',
          plural: 'deployments',
          scope: 'Namespaced',
        },
      ]);
    }
  });

  test('are cluster-scoped where no path has a namespace', () => {
    const [node, ...others] = find({ '/api/v1/nodes': 'Node' }, 'V1Node');
    expect(node).toMatchObject({ group: '', version: 'v1', plural: 'nodes', scope: 'Cluster' });
    expect(others).toEqual([]);
  });

  test('include one that can only be created', () => {
    const kinds = findBuiltInKinds(
      {
        paths: {
          '/apis/authorization.k8s.io/v1/subjectaccessreviews': {
            post: { 'x-kubernetes-group-version-kind': { kind: 'SubjectAccessReview' } },
          },
        },
      },
      new Set(['V1SubjectAccessReview']),
    );
    expect(kinds.map(({ name }) => name)).toEqual(['SubjectAccessReview']);
  });

  test('are those of the newest stable version, without objects, subresources and watches', () => {
    const kinds = find(
      {
        '/api/v1/': 'Nothing',
        '/apis/autoscaling/': 'Nothing',
        [`/apis/autoscaling/v2/${inNamespace}/horizontalpodautoscalers`]: 'HorizontalPodAutoscaler',
        [`/apis/autoscaling/v10/${inNamespace}/horizontalpodautoscalers`]: 'HorizontalPodAutoscaler',
        [`/apis/autoscaling/v9/${inNamespace}/horizontalpodautoscalers`]: 'HorizontalPodAutoscaler',
        '/apis/autoscaling/v11beta1/horizontalpodautoscalers': 'HorizontalPodAutoscaler',
        [`/apis/autoscaling/v10/${inNamespace}/horizontalpodautoscalers/{name}`]: 'HorizontalPodAutoscaler',
        [`/apis/autoscaling/v10/${inNamespace}/horizontalpodautoscalers/{name}/status`]: 'HorizontalPodAutoscaler',
        '/apis/autoscaling/v10/watch/horizontalpodautoscalers': 'HorizontalPodAutoscaler',
      },
      'V2HorizontalPodAutoscaler',
      'V10HorizontalPodAutoscaler',
    );
    expect(kinds.map(({ version, objectType }) => [version, objectType])).toEqual([
      ['v10', 'V10HorizontalPodAutoscaler'],
    ]);
  });

  test('have distinct names where the core group and another share a kind', () => {
    const kinds = find(
      {
        [`/apis/events.k8s.io/v1/${inNamespace}/events`]: 'Event',
        [`/api/v1/${inNamespace}/events`]: 'Event',
        [`/api/v1/${inNamespace}/pods`]: 'Pod',
      },
      'CoreV1Event',
      'EventsV1Event',
      'V1Pod',
    );
    expect(kinds.map(({ name, group, kind, objectType }) => [name, group, kind, objectType])).toEqual([
      ['CoreEvent', '', 'Event', 'CoreV1Event'],
      ['Pod', '', 'Pod', 'V1Pod'],
      ['Event', 'events.k8s.io', 'Event', 'EventsV1Event'],
    ]);
  });
});

describe('an error names', () => {
  test('a kind without a type', () => {
    expect(() => find({ '/apis/apps/v1/gadgets': 'Gadget' }, 'V1Pod')).toThrow(
      '@kubernetes/client-node has no type V1Gadget for apps/v1',
    );
  });

  test('a kind that two groups share', () => {
    const paths = { '/apis/a.example/v1/gadgets': 'Gadget', '/apis/b.example/v1/gadgets': 'Gadget' };
    expect(() => find(paths, 'V1Gadget')).toThrow('b.example and a.example both have a kind Gadget');
  });

  test('a path whose operations name no kind', () => {
    expect(() => findBuiltInKinds({ paths: { '/api/v1/pods': { parameters: [] } } }, new Set())).toThrow(
      '/api/v1/pods',
    );
  });
});

test('the source has a constant and a type for each kind, by group', () => {
  const source = renderBuiltInKinds(
    find(
      { [`/api/v1/${inNamespace}/pods`]: 'Pod', '/apis/storage.k8s.io/v1/csinodes': 'CSINode' },
      'V1Pod',
      'V1CSINode',
    ),
  );
  expect(source).toContain(`
// v1

export const Pod: Kind<BuiltIn<clientNode.V1Pod>> = /* @__PURE__ */ builtInKind({"group":"","version":"v1","kind":"Pod","plural":"pods"});
export type Pod = ObjectOf<typeof Pod>;

// storage.k8s.io/v1

export const CSINode: Kind<BuiltIn<clientNode.V1CSINode>> = /* @__PURE__ */ builtInKind({"group":"storage.k8s.io","version":"v1","kind":"CSINode","plural":"csinodes","scope":"Cluster"});
export type CSINode = ObjectOf<typeof CSINode>;
`);
});
