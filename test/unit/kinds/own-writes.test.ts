import { Applier, type KubeObject } from '@echoperator/runtime';
import type { DefinedController } from '@echoperator/runtime/controller';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { echoController } from '../../../src/kinds/echo/controller.ts';
import { scheduledEchoController } from '../../../src/kinds/scheduled-echo/controller.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { podSettings } from '../../../testkit/pod-settings.ts';
import { Managed } from '../environment/managed.ts';
import { echoOf, jobOf } from './echo/echos.ts';
import { cronJobFor, scheduledEchoOf } from './scheduled-echo/scheduled-echos.ts';

let managed: Managed;
beforeEach(async () => {
  managed = await Managed.start();
});
afterEach(() => managed.close());

test.each([
  [
    'Echo',
    echoController(podSettings),
    echoOf(),
    'echos',
    jobOf(echoOf()),
    '/apis/batch/v1/jobs',
    '/apis/batch/v1/cronjobs',
  ],
  [
    'ScheduledEcho',
    scheduledEchoController(podSettings),
    scheduledEchoOf(),
    'scheduledechos',
    cronJobFor(scheduledEchoOf()),
    '/apis/batch/v1/cronjobs',
    undefined,
  ],
] satisfies readonly (readonly [
  string,
  DefinedController,
  KubeObject,
  string,
  KubeObject,
  string,
  string | undefined,
])[])(
  'the events of its own creation and status write do not cause a reconcile of a new %s',
  async (_, controller, object, plural, child, childrenPath, namesakesPath) => {
    const { kind } = controller;
    const { manager, registry } = managed;
    const events = { record: () => {} };
    const applier = new Applier({ fieldManager: 'tester' });
    controller.add({ manager, applier, events, metrics: { registry } }, { workers: 1, resyncEveryMs: 1_000_000 });
    managed.run();
    const path = `/apis/mmontes.io/v1alpha1/${plural}`;
    const objectPath = `/apis/mmontes.io/v1alpha1/namespaces/default/${plural}/hello`;
    const watched = [path, childrenPath, '/api/v1/pods', ...(namesakesPath === undefined ? [] : [namesakesPath])];
    const streams = await managed.sync(Object.fromEntries(watched.map((each) => [each, { resourceVersion: '1' }])));
    const reconciles = () =>
      managed.metric('controller_runtime_reconcile_total', { controller: kind.kind.toLowerCase(), result: 'success' });
    streams[path]?.send('ADDED', object);
    if (namesakesPath === undefined) (await managed.server.next({ method: 'GET' })).refuse(404, 'NotFound');
    (await managed.server.next()).json(201, child);
    const written = await managed.server.next({ path: `${objectPath}/status` });
    const { status } = written.body as { readonly status: object };
    const reported = { ...object, metadata: { ...object.metadata, resourceVersion: '7' }, status };
    written.json(200, reported);
    await eventually('the reconcile has ended', async () => (await reconciles()) === 1);
    streams[childrenPath]?.send('ADDED', child);
    streams[path]?.send('MODIFIED', reported);
    const informer = managed.manager.informer<KubeObject>(kind);
    await eventually('the events have been handled', async () => informer.hasReached('7'));
    // An edit of the status is corrected. A reconcile because of the events before would have begun earlier.
    const edited = { ...reported, metadata: { ...object.metadata, resourceVersion: '8' }, status: {} };
    streams[path]?.send('MODIFIED', edited);
    (await managed.server.next({ path: `${objectPath}/status` })).json(200, reported);
    const labels = { controller: kind.kind.toLowerCase() };
    const isIdle = async () => (await managed.metric('controller_runtime_active_workers', labels)) === 0;
    await eventually('all reconciles have ended', async () => (await reconciles()) > 1 && (await isIdle()));
    expect(await reconciles()).toBe(2);
  },
);
