import type { Kind } from '@echoperator/runtime';
import { ConfigMap, Deployment, Service } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import { schemaOf } from '../../../../packages/runtime/src/apply/kind-schema.ts';
import {
  applyFields,
  customResetFields,
  keepTimesIfUnchanged,
  trackFields,
} from '../../../../packages/testing/src/simulation/field-managers.ts';
import {
  NotSimulatedError,
  RefusedError,
  type StoredObject,
} from '../../../../packages/testing/src/simulation/strategy.ts';

type Content = Readonly<Record<string, unknown>> & { readonly metadata?: object };

/** Builds an object of a kind, and calls the functions for it. */
function world(kind: Kind, apiVersion: string) {
  let seconds = 10;
  const write = (manager: string) => {
    seconds += 1;
    return { manager, apiVersion, schema: schemaOf(kind), timeIso: `2026-01-01T00:00:${seconds}Z` };
  };
  const object = ({ metadata, ...content }: Content): StoredObject => ({
    apiVersion,
    kind: kind.kind,
    ...content,
    metadata: { ...metadata, name: 'a', namespace: 'b' },
  });
  return {
    object,
    create: (manager: string, content: Content) =>
      trackFields({ ...write(manager), before: undefined, after: object(content) }),
    update: (manager: string, before: StoredObject, after: StoredObject, rest: { subresource?: string } = {}) =>
      keepTimesIfUnchanged(before, trackFields({ ...write(manager), ...rest, before, after })),
    apply: (manager: string, live: StoredObject | undefined, content: Content, rest: { force?: boolean } = {}) => {
      const applied = applyFields({ ...write(manager), live, applied: object(content), force: false, ...rest });
      return live === undefined ? applied : keepTimesIfUnchanged(live, applied);
    },
  };
}

const configMaps = world(ConfigMap, 'v1');
const deployments = world(Deployment, 'apps/v1');
const services = world(Service, 'v1');

const ownersOf = (object: StoredObject) =>
  Object.fromEntries(
    (object.metadata.managedFields ?? []).map(({ manager, operation, fieldsV1 }) => [
      `${manager} ${operation}`,
      fieldsV1,
    ]),
  );
const timesOf = (object: StoredObject) => object.metadata.managedFields?.map(({ time }) => time);

describe('trackFields', () => {
  test('gives a new object to its creator, without what nobody owns', () => {
    const created = configMaps.create('a', { metadata: { labels: { l: '1' } }, data: { x: '1' } });
    expect(created.metadata.managedFields).toEqual([
      {
        manager: 'a',
        operation: 'Update',
        apiVersion: 'v1',
        time: '2026-01-01T00:00:11Z',
        fieldsType: 'FieldsV1',
        fieldsV1: {
          'f:data': { '.': {}, 'f:x': {} },
          'f:metadata': { 'f:labels': { '.': {}, 'f:l': {} } },
        },
      },
    ]);
  });

  test('names items by their keys and defaults, and owns what an empty object has only by its contents', () => {
    const created = services.create('a', { spec: { ports: [{ port: 80, targetPort: 'x' }], selector: { a: 'b' } } });
    expect(ownersOf(created)).toEqual({
      'a Update': {
        'f:spec': {
          'f:ports': {
            '.': {},
            'k:{"port":80,"protocol":"TCP"}': { '.': {}, 'f:port': {}, 'f:targetPort': {} },
          },
          'f:selector': {},
        },
      },
    });
  });

  test('moves changed fields to the manager, and takes removed ones from all', () => {
    const created = configMaps.create('a', { data: { x: '1', y: '1', z: '1' } });
    const updated = configMaps.update('b', created, { ...created, data: { x: '2', z: '1' } });
    expect(ownersOf(updated)).toEqual({
      'a Update': { 'f:data': { '.': {}, 'f:z': {} } },
      'b Update': { 'f:data': { 'f:x': {} } },
    });
  });

  test('keeps the managed fields of an update that changes nothing', () => {
    const created = configMaps.create('a', { data: { x: '1' } });
    expect(configMaps.update('b', created, created)).toEqual(created);
  });

  test.each([[[]], [[{}]]])('resets the managed fields for %j until the next apply', (managedFields) => {
    const created = configMaps.create('a', { data: { x: '1' } });
    const metadata = { ...created.metadata, managedFields: managedFields as never };
    const reset = configMaps.update('b', created, { ...created, metadata });
    expect(reset.metadata).not.toHaveProperty('managedFields');
    const updated = configMaps.update('b', reset, { ...reset, data: { x: '2' } });
    expect(updated.metadata).not.toHaveProperty('managedFields');
    expect(ownersOf(configMaps.apply('c', updated, { data: { y: '1' } }))).toEqual({
      'before-first-apply Update': { 'f:data': { '.': {}, 'f:x': {} } },
      'c Apply': { 'f:data': { 'f:y': {} } },
    });
  });

  test('has an entry for each subresource, and ignores what the strategy resets', () => {
    const created = deployments.create('a', { spec: { replicas: 1 } });
    const after = { ...created, spec: { replicas: 2 }, status: { replicas: 1 } };
    const write = { manager: 'a', apiVersion: 'apps/v1', schema: schemaOf(Deployment), timeIso: '' };
    const updated = trackFields({
      ...write,
      before: created,
      after,
      subresource: 'status',
      resetFields: customResetFields('status'),
    });
    expect(updated.metadata.managedFields).toMatchObject([
      { manager: 'a', subresource: 'status', fieldsV1: { 'f:status': { 'f:replicas': {} } } },
      { manager: 'a', fieldsV1: { 'f:spec': { 'f:replicas': {} } } },
    ]);
  });

  test('does not simulate what the API server does to old managers and duplicates', () => {
    let object = configMaps.create('m0', { data: {} });
    const addManager = (index: number) =>
      configMaps.update(`m${index}`, object, { ...object, data: { ...(object.data as object), [index]: '' } });
    for (let index = 1; index < 10; index += 1) object = addManager(index);
    expect(object.metadata.managedFields).toHaveLength(10);
    expect(() => addManager(10)).toThrow(NotSimulatedError);
    expect(() => services.create('a', { spec: { ports: [{ port: 80 }, { port: 80 }] } })).toThrow(
      new NotSimulatedError('a list with two items [port=80,protocol="TCP"]'),
    );
  });
});

describe('applyFields', () => {
  test('merges maps by key, keyed lists by item in the applied order, and replaces the atomic', () => {
    const container = (name: string, rest: object = {}) => ({ name, ...rest });
    const specOf = (containers: object[], rest: object = {}) => ({
      spec: { template: { spec: { containers, ...rest } } },
    });
    const live = deployments.create(
      'a',
      specOf([container('x', { image: '1', args: ['-v'] }), container('y'), container('z')], {
        nodeSelector: { a: '1' },
      }),
    );
    const applied = deployments.apply(
      'b',
      live,
      specOf([container('z'), container('w'), container('x', { args: ['-q'] })], { nodeSelector: { b: '1' } }),
      { force: true },
    );
    expect(applied).toMatchObject(
      specOf([container('y'), container('z'), container('w'), container('x', { image: '1', args: ['-q'] })], {
        nodeSelector: { b: '1' },
      }),
    );
  });

  test('removes what the manager no longer applies, unless another manager owns it', () => {
    const first = configMaps.apply('a', undefined, { data: { x: '1', y: '1' } });
    const shared = configMaps.apply('b', first, { data: { y: '1' } });
    const applied = configMaps.apply('a', shared, { data: { z: '1' } });
    expect(applied.data).toEqual({ y: '1', z: '1' });
    expect(ownersOf(applied)).toEqual({
      'a Apply': { 'f:data': { 'f:z': {} } },
      'b Apply': { 'f:data': { 'f:y': {} } },
    });
  });

  test('removes an item that it no longer applies with all in it, unless another manager applies the item too', () => {
    const first = services.apply('a', undefined, {
      spec: { ports: [{ port: 80, name: 'x' }, { port: 81 }, { port: 82 }] },
    });
    const shared = services.apply('b', first, { spec: { ports: [{ port: 80, targetPort: 8080 }] } });
    const [x, y, z] = (shared.spec as { ports: object[] }).ports;
    const updated = services.update('c', shared, { ...shared, spec: { ports: [x, { ...y, targetPort: 8081 }, z] } });
    expect(services.apply('a', updated, { spec: { ports: [{ port: 82 }] } }).spec).toEqual({
      ports: [{ port: 80, targetPort: 8080 }, { port: 82 }],
    });
  });

  test('changes no time if it changes nothing', () => {
    const first = configMaps.apply('a', undefined, { data: { x: '1' } });
    expect(configMaps.apply('a', first, { data: { x: '1' } })).toEqual(first);
    expect(timesOf(configMaps.apply('a', first, { data: { x: '2' } }))).not.toEqual(timesOf(first));
  });

  test('sorts the entries by operation, time and manager; one that only shares fields has no time', () => {
    const created = configMaps.create('z', { data: { x: '1' } });
    const shared = configMaps.apply('y', created, { data: { x: '1' } });
    const applied = configMaps.apply('c', shared, { data: { y: '1' } });
    expect(Object.keys(ownersOf(applied))).toEqual(['y Apply', 'c Apply', 'z Update']);
    expect(timesOf(applied)?.[0]).toBeUndefined();
  });

  test('refuses to change what others own, unless it is forced', () => {
    const live = configMaps.apply('a', configMaps.create('b', { data: { x: '1' } }), { data: { y: '1', z: '1' } });
    const content = { data: { x: '2', y: '2', z: '2' } };
    const refused = () => configMaps.apply('c', live, content);
    expect(refused).toThrow(RefusedError);
    expect(refused).toThrow(
      [
        'Apply failed with 3 conflicts: conflicts with "a":',
        '- .data.y',
        '- .data.z',
        'conflicts with "b" using v1:',
        '- .data.x',
      ].join('\n'),
    );
    expect(() => configMaps.apply('c', live, { data: { x: '2' } })).toThrow(
      expect.objectContaining({
        status: {
          code: 409,
          reason: 'Conflict',
          message: 'Apply failed with 1 conflict: conflict with "b" using v1: .data.x',
          details: {
            causes: [{ reason: 'FieldManagerConflict', message: 'conflict with "b" using v1', field: '.data.x' }],
          },
        },
      }),
    );
    expect(ownersOf(configMaps.apply('c', live, content, { force: true }))).toEqual({
      'b Update': { 'f:data': {} },
      'c Apply': { 'f:data': { 'f:x': {}, 'f:y': {}, 'f:z': {} } },
    });
  });

  test('refuses managed fields in the configuration', () => {
    const metadata = { managedFields: [] };
    expect(() => configMaps.apply('a', undefined, { metadata })).toThrow('metadata.managedFields must be nil');
  });

  test('does not simulate fields of another version, nor kubectl’s annotation', () => {
    const applied = deployments.apply('a', undefined, { spec: { replicas: 1 } });
    const [entry] = applied.metadata.managedFields!;
    const managedFields = [{ ...entry!, apiVersion: 'apps/v1beta1' }];
    const older = { ...applied, metadata: { ...applied.metadata, managedFields } };
    expect(() => deployments.apply('b', older, {})).toThrow(NotSimulatedError);
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{}' };
    const live = configMaps.create('kubectl-client-side-apply', { metadata: { annotations } });
    expect(() => configMaps.apply('kubectl', live, {})).toThrow(NotSimulatedError);
  });
});
