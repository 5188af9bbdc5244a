import { describe, expect, test } from '@jest/globals';
import { readConfig } from '../../../../src/config.ts';
import { deploymentOf } from '../../../../src/kinds/book-store/app.ts';
import { statefulSetOf } from '../../../../src/kinds/book-store/database.ts';
import { specWithDefaultsOf } from '../../../../src/kinds/book-store/desired.ts';
import { echoJob } from '../../../../src/kinds/echo/echo-job.ts';
import { newPod } from '../../../../src/kinds/pod-set/pod.ts';
import { cronJobOf } from '../../../../src/kinds/scheduled-echo/cron-job.ts';
import { bookStorePodDefaults, podDefaults, printPodSettings } from '../../../../src/operator.ts';
import { bookStore } from '../book-store/objects.ts';
import { echoOf } from '../echo/echos.ts';
import { podSetOf } from '../pod-set/pod-sets.ts';
import { scheduledEchoOf } from '../scheduled-echo/scheduled-echos.ts';

const podMetadata = {
  labels: { 'sidecar.istio.io/inject': 'false', team: 'a' },
  annotations: { note: 'of the object' },
};
const config = readConfig({
  CHILD_POD_LABELS: '{"team":"all","cost":"1"}',
  CHILD_POD_ANNOTATIONS: '{"note":"of the chart","sidecar.istio.io/inject":"false"}',
});

/** The metadata of the pods of each kind, with these fields in its spec. */
const pods = (fields: object, settings = config) => {
  const store = bookStore({ bookApp: fields, bookDB: fields });
  const spec = specWithDefaultsOf(store);
  return {
    Echo: echoJob(echoOf({ spec: { message: 'a', ...fields } }), printPodSettings(settings)).spec?.template,
    ScheduledEcho: cronJobOf(scheduledEchoOf({ spec: fields }), 'hello', printPodSettings(settings)).spec?.jobTemplate
      .spec?.template,
    'BookStore app': deploymentOf(store, spec, bookStorePodDefaults(settings)).spec?.template,
    'BookStore database': statefulSetOf(store, spec, undefined, bookStorePodDefaults(settings)).spec?.template,
  };
};
const kinds = ['Echo', 'ScheduledEcho', 'BookStore app', 'BookStore database'] as const;

describe.each(kinds)('the pods of: %s', (kind) => {
  test('have the labels and annotations of the spec, then of the settings', () => {
    const { labels, annotations } = pods({ podMetadata })[kind]?.metadata ?? {};
    expect(labels).toMatchObject({ 'sidecar.istio.io/inject': 'false', team: 'a', cost: '1' });
    expect(annotations).toEqual({ note: 'of the object', 'sidecar.istio.io/inject': 'false' });
  });

  test('keep the labels of the operator, whatever the others say', () => {
    const before = pods({}, readConfig({}))[kind]?.metadata;
    const own = before?.labels ?? {};
    expect(Object.keys(own)).toContain('app.kubernetes.io/name');
    const stolen = Object.fromEntries(Object.keys(own).map((label) => [label, 'stolen']));
    expect(pods({ podMetadata: { labels: stolen } }, readConfig({}))[kind]?.metadata).toEqual(before);
  });

  test('have no annotations by default, as before', () => {
    expect(pods({}, readConfig({}))[kind]?.metadata?.annotations).toBeUndefined();
  });
});

describe('the pods of a PodSet', () => {
  const set = podSetOf();
  const settings = { image: 'busybox:1.36', podDefaults: podDefaults(config) };

  test('without a template have those of the settings', () => {
    expect(newPod(set, 'default', 'web-pod-1', settings).metadata).toMatchObject({
      labels: { cost: '1', team: 'all', app: 'web' },
      annotations: { note: 'of the chart' },
    });
  });

  test('with a template have only those of the template', () => {
    const template = { metadata: { labels: { team: 'b' } }, spec: {} };
    const { metadata } = newPod(podSetOf({ spec: { template } }), 'h', 'web-pod-1', settings);
    expect(metadata?.labels).not.toHaveProperty('cost');
    expect(metadata?.annotations).toBeUndefined();
  });
});

test('the resources of a pod that prints are those of the settings, as texts: the API server stores no numbers', () => {
  const resources = (settings: object) =>
    pods({}, readConfig(settings as NodeJS.ProcessEnv)).Echo?.spec?.containers[0]?.resources;
  expect(resources({})).toEqual({ requests: { cpu: '10m', memory: '16Mi' }, limits: { memory: '64Mi' } });
  expect(resources({ ECHO_RESOURCES: '{"limits":{"cpu":1,"memory":"32Mi"}}' })).toEqual({
    limits: { cpu: '1', memory: '32Mi' },
  });
  expect(resources({ ECHO_RESOURCES: '{}' })).toEqual({});
});
