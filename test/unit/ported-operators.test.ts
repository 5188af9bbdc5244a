import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findCondition } from '@echoperator/runtime';
import { ConfigMap, Deployment, Namespace, Secret } from '@echoperator/runtime/kinds';
import { type Simulation, type SimulationOptions, simulate } from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import { Backend, backends } from '../../examples/backend/backend.ts';
import { addTeamSecrets } from '../../examples/team-secrets/team-secrets.ts';
import { tableAfter } from '../../testkit/markdown.ts';

describe('team secrets', () => {
  const key = { namespace: 'team-a', name: 'web' };
  const copyKey = { namespace: 'istio-system', name: 'copy-team-a-web' };
  const type = 'kubernetes.io/tls';
  const data = (text: string) => ({ 'tls.crt': btoa(text), 'tls.key': btoa('key') });
  const options: SimulationOptions = {
    addControllers: addTeamSecrets,
    before: async (client) => {
      for (const name of ['team-a', 'argocd', 'istio-system']) await client.create(Namespace, { metadata: { name } });
    },
  };
  const create = ({ client }: Pick<Simulation, 'client'>) =>
    client.create(Secret, { metadata: key, type, data: data('first') });
  const copies = (simulation: Simulation) =>
    simulation.objects(Secret).filter(({ metadata }) => metadata.name.startsWith('copy-'));

  test('follow the Secret: its creation, its change and its deletion', async () => {
    await simulate(options, async (simulation) => {
      await create(simulation);
      await simulation.settle();
      expect(copies(simulation)).toMatchObject([{ metadata: copyKey, type, data: data('first') }]);
      await simulation.client.patch(Secret, key, { type: 'merge', body: { data: data('second') } });
      await simulation.settle();
      expect(copies(simulation)).toMatchObject([{ data: data('second') }]);
      await simulation.client.delete(Secret, key);
      await simulation.settle();
      expect(copies(simulation)).toEqual([]);
    });
  });

  test('are restored after a deletion and an edit', async () => {
    await simulate(options, async (simulation) => {
      await create(simulation);
      await simulation.settle();
      await simulation.client.delete(Secret, copyKey);
      await simulation.settle();
      expect(copies(simulation)).toHaveLength(1);
      await simulation.client.patch(Secret, copyKey, { type: 'merge', body: { data: data('edited') } });
      await simulation.settle();
      expect(copies(simulation)).toMatchObject([{ data: data('first') }]);
    });
  });

  test('are deleted after a start if the Secret was deleted while no operator ran', async () => {
    await simulate(options, async (simulation) => {
      await create(simulation);
      await simulation.settle();
      const [process] = simulation.processes;
      if (process) simulation.crash(process);
      await simulation.client.delete(Secret, key);
      expect(copies(simulation)).toHaveLength(1);
      await simulation.start();
      await simulation.settle();
      expect(copies(simulation)).toEqual([]);
    });
  });

  test('are made in the namespace of the type, and not of other types or namespaces', async () => {
    await simulate(options, async (simulation) => {
      const { client } = simulation;
      const pull = { '.dockerconfigjson': btoa('{"auths":{}}') };
      await client.create(Secret, { metadata: key, type: 'kubernetes.io/dockerconfigjson', data: pull });
      await client.create(Secret, { metadata: { ...key, name: 'plain' }, data: {} });
      await client.create(Secret, { metadata: { ...key, namespace: 'default' }, type, data: data('first') });
      await simulation.settle();
      expect(copies(simulation)).toMatchObject([{ metadata: { ...copyKey, namespace: 'argocd' } }]);
    });
  });
});

describe('backends', () => {
  const key = { namespace: 'default', name: 'api' };
  const spec = { image: 'app', replicas: 2, enabled: true, computeClass: 'small' };
  const reasonOf = (simulation: Simulation) =>
    findCondition(simulation.objects(Backend)[0]?.status?.conditions, 'Ready')?.reason;
  const setAvailable = async ({ client }: Simulation, availableReplicas: number) => {
    const { metadata } = await client.get(Deployment, key);
    const status = { replicas: 2, updatedReplicas: 2, availableReplicas, observedGeneration: metadata.generation };
    await client.mergeStatus(Deployment, metadata, status);
  };

  test('have a Deployment and a ConfigMap, and report what the Deployment reports', async () => {
    await simulate({ controllers: [backends] }, async (simulation) => {
      const config = [{ name: 'app.toml', config: 'debug = true' }];
      const envVars = [{ name: 'MODE', value: 'fast' }];
      await simulation.client.create(Backend, { metadata: key, spec: { ...spec, config, envVars, args: '--port 80' } });
      await simulation.settle();
      expect(reasonOf(simulation)).toBe('Provisioning');
      expect(simulation.objects(ConfigMap)[0]?.data).toEqual({ 'app.toml': 'debug = true' });
      const container = simulation.objects(Deployment)[0]?.spec?.template.spec?.containers[0];
      expect(container).toMatchObject({ image: 'app', args: ['--port', '80'], env: envVars });
      await setAvailable(simulation, 1);
      await simulation.settle();
      expect(reasonOf(simulation)).toBe('Degraded');
      await setAvailable(simulation, 2);
      await simulation.settle();
      expect(reasonOf(simulation)).toBe('Running');
      expect(simulation.objects(Backend)[0]?.status).toMatchObject({
        runningStatus: 'running',
        availableReplicas: 2,
        computeDCUPerMin: 4,
        availableEnvVars: ['MODE'],
        startTime: expect.any(Number),
      });
    });
  });

  test('are paused and started again, with a new start time', async () => {
    await simulate({ controllers: [backends] }, async (simulation) => {
      const enable = async (enabled: boolean) => {
        await simulation.client.patch(Backend, key, { type: 'merge', body: { spec: { enabled } } });
        await simulation.settle();
        return simulation.objects(Backend)[0]?.status?.startTime;
      };
      await simulation.client.create(Backend, { metadata: key, spec });
      await simulation.settle();
      const first = simulation.objects(Backend)[0]?.status?.startTime ?? 0;
      expect(await enable(false)).toBe(0);
      expect(simulation.objects(Deployment)[0]?.spec?.replicas).toBe(0);
      await setAvailable(simulation, 0);
      await simulation.settle();
      expect(reasonOf(simulation)).toBe('Paused');
      await simulation.advance(60_000);
      expect(await enable(true)).toBeGreaterThanOrEqual(first + 60_000);
    });
  });

  test('restore a Deployment that was deleted', async () => {
    await simulate({ controllers: [backends] }, async (simulation) => {
      await simulation.client.create(Backend, { metadata: key, spec });
      await simulation.settle();
      await simulation.client.delete(Deployment, key);
      await simulation.settle();
      expect(simulation.objects(Deployment)).toHaveLength(1);
    });
  });
});

test.each(['team-secrets', 'backend'])('docs/ported-operators.md says how many lines %s has', async (name) => {
  const root = join(import.meta.dirname, '../..');
  const code = await readFile(join(root, `examples/${name}/${name}.ts`), 'utf8');
  const lines = code.split('\n').filter((line) => !/^\s*(\/\/.*|\/\*.*|\*.*)?$/.test(line));
  const rows = tableAfter(await readFile(join(root, 'docs/ported-operators.md'), 'utf8'), '| port |');
  expect(rows.find(({ port }) => port?.includes(`${name}.ts`))?.['lines after']).toBe(String(lines.length));
});
