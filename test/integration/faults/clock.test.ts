import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { FaultProxy, isWatch } from '@echoperator/testing';
import { afterAll, beforeAll, expect } from '@jest/globals';
import { eventually } from '../../../testkit/eventually.ts';
import { fakeClock, removeLeftoverClocks } from '../../../testkit/fake-clock.ts';
import { testOnLinux } from '../../../testkit/on-linux.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { SubjectProcess } from './environment/subject-process.ts';
import { World } from './environment/world.ts';

const hourMs = 3_600_000;

let cluster: TestCluster;
let proxy: FaultProxy;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  // Plain HTTP to the proxy: a clock an hour off would refuse the certificates, which are some minutes old.
  proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
});

afterAll(async () => {
  await proxy.close();
  await cluster.close();
  await removeLeftoverClocks();
});

testOnLinux(
  'an informer continues if the clock jumps an hour ahead and two hours back',
  async () => {
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'clock-'));
    const offset = join(folder, 'offset');
    await writeFile(offset, '+0');
    const world = new World(cluster.client, await cluster.namespace());
    await world.populate();
    await using subject = await SubjectProcess.start(
      { server: proxy.connection.server.href, tls: {}, namespace: world.namespace },
      await fakeClock(offset),
    );
    await world.converge(subject);
    await world.change();
    await world.converge(subject);
    const heapBefore = await subject.ask('heap');
    for (const jump of ['+3600', '-3600']) {
      await writeFile(offset, jump);
      await eventually('the clock has jumped', async () => {
        const aheadMs = (await subject.ask('clock')) - Date.now();
        return Math.abs(aheadMs - (Number(jump) / 3600) * hourMs) < 60_000;
      });
      await world.change();
      await world.converge(subject);
      // New connections must work with the wrong clock too.
      await eventually('both kinds are watched', async () => proxy.watches === 2);
      const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 });
      await world.change();
      await world.converge(subject);
      expect(cut.count).toBe(2);
      cut.off();
    }
    await world.heapIsAsBefore(subject, heapBefore);
  },
  120_000,
);
