import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { forEachConcurrently } from '../../packages/testing/src/for-each-concurrently.ts';
import { controllers } from '../../src/operator.ts';
import { operatorCommand } from '../../testkit/operator-process.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { expectNothingPlanned, planProgram } from './environment/planned-objects.ts';

let cluster: TestCluster;

beforeEach(async () => {
  cluster = await TestCluster.connect();
});
afterEach(() => cluster.close());

test('the same version plans no write, and other settings plan their changes', async () => {
  const namespace = await cluster.namespace();
  const counts = { echo: 40, scheduledEcho: 40, podSet: 60, bookStore: 20, pet: 20, postgresWriter: 20 };
  await expectNothingPlanned(cluster, namespace, counts, 120_000);

  const same = await planProgram(cluster, namespace, []);
  expect(same.stdout).toContain('200 objects planned');
  expect(same.stdout).toContain('External calls, which end the plan of their objects (40)');
  expect(same.exitCode).toBe(0);

  const image = { ECHO_IMAGE: 'example.com/other:2' };
  const other = await planProgram(cluster, namespace, ['--json', '--kind', 'scheduledecho', '-n', namespace], image);
  const { reconciled, objects } = JSON.parse(other.stdout);
  expect([other.exitCode, reconciled, objects.length]).toEqual([3, 40, 40]);
  expect(objects[0].writes).toMatchObject([{ action: 'change', kind: 'CronJob', namespace }]);
  expect(objects[0].writes[0].fields).toContainEqual({
    path: 'spec.jobTemplate.spec.template.spec.containers[echo].image',
    before: expect.any(String),
    after: 'example.com/other:2',
  });
  const deletions = await planProgram(cluster, namespace, ['--fail-on', 'delete,replace'], image);
  expect(deletions.exitCode).toBe(0);
  expect(deletions.stdout).toMatch(/change .* and 35 more\n/);
  const wrong = await planProgram(cluster, namespace, ['--fail-on', 'deletes']);
  expect([wrong.exitCode, wrong.stderr]).toEqual([2, expect.stringContaining('--fail-on: got deletes')]);
  const never = await planProgram(cluster, namespace, ['--fail-on', 'never'], image);
  expect(never.exitCode).toBe(0);
  const changes = await planProgram(cluster, namespace, ['--fail-on', 'change'], image);
  expect(changes.exitCode).toBe(3);
}, 300_000);

test.each([
  [['-n', ''], {}, '--namespace: got nothing'],
  [['-n', 'other'], {}, '--namespace: got other, takes one of WATCH_NAMESPACES'],
  [['--kind', 'job'], {}, '--kind: got job'],
  [['--fail-on', ''], {}, '--fail-on: got nothing'],
  [['--requests-per-second', '0'], {}, '--requests-per-second: got 0'],
  [['everything'], {}, 'plan: Unexpected argument'],
  [[], { NUM_WORKERS: 'many' }, 'NUM_WORKERS'],
] as const)('a wrong argument or setting has the exit code 2: %j %j', async (args, settings, message) => {
  const { exitCode, stderr, stdout } = await planProgram(cluster, await cluster.namespace(), args, settings);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toContain(message);
});

test('what is not authorized, or stopped by a signal, has the exit code 1 and one line of text', async () => {
  const namespace = await cluster.namespace();
  // Nothing listens at the port. The plan waits until it is stopped.
  const kubeconfig = join(process.env.INTEGRATION_FOLDER ?? '', `${namespace}.kubeconfig`);
  await writeFile(
    kubeconfig,
    (await readFile(cluster.kubeconfig, 'utf8')).replace(/(server: https?:\/\/[^:]*):\d+/, '$1:1'),
  );
  const running = operatorCommand(['plan'], { KUBECONFIG: kubeconfig, LOG_LEVEL: 'warn' });
  await once(running.stderr, 'data');
  running.kill('SIGINT');
  const { exitCode, stderr, stdout } = await running;
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
  expect(stderr.trimEnd().split('\n').at(-1)).toBe('echoperator: plan: stopped by a signal');
});

test('a plan opens no connection to an external system', async () => {
  const namespace = await cluster.namespace();
  const pet = {
    metadata: { namespace, name: 'rex' },
    spec: { name: 'Rex', type: 'dog', birthday: '2021-04-01T00:00:00Z' },
  };
  await cluster.client.create(controllers.pet.kind, pet as never);
  const row = {
    metadata: { namespace, name: 'ann' },
    spec: { table: 'students', name: 'Ann', age: 23, country: 'Spain' },
  };
  await cluster.client.create(controllers.postgresWriter.kind, row as never);
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const port = String((server.address() as AddressInfo).port);
  const external = { PSQL_PORT: port, PETSTORE_ADDRESS: `127.0.0.1:${port}` };
  const first = await planProgram(cluster, namespace, [], external);
  expect(first.stdout).toContain('2 objects planned');
  // The finalizers come first. With them, the calls come first.
  await forEachConcurrently([controllers.pet, controllers.postgresWriter], async ({ kind, finalizer = '' }) => {
    const name = kind === controllers.pet.kind ? 'rex' : 'ann';
    const body = { metadata: { finalizers: [finalizer] } };
    await cluster.client.patch(kind, { namespace, name }, { type: 'merge', body });
  });
  const second = await planProgram(cluster, namespace, [], external);
  expect(second.stdout).toContain('External calls, which end the plan of their objects (2)');
  expect(connections).toBe(0);
  server.close();
});
