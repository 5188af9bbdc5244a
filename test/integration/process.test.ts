import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { echoManifest } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { freePorts } from '../../testkit/free-ports.ts';
import { OperatorProcess, operatorCommand } from '../../testkit/operator-process.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.connect();
});
afterAll(() => cluster.close());

test('invalid settings end the process with exit code 2 and a line each', async () => {
  const { exitCode, stderr, stdout } = await operatorCommand([], {
    NUM_WORKERS: 'many',
    LOG_LEVEL: 'loud',
    METRICS_PORT: '70000',
  });
  expect(exitCode).toBe(2);
  expect(stdout).toBe('');
  expect(stderr.trim().split('\n').sort()).toEqual([
    'LOG_LEVEL: got "loud", takes one of trace, debug, info, warn, error, fatal',
    'METRICS_PORT: got "70000", takes a whole number from 1 to 65535',
    'NUM_WORKERS: got "many", takes a whole number from 1 to 1000',
  ]);
});

test('contradictory times of the Lease are rejected with the names of their settings', async () => {
  const settings = { HA_RENEW_DEADLINE_SECONDS: '20', KUBECONFIG: cluster.kubeconfig };
  const { exitCode, stderr } = await operatorCommand([], settings);
  expect(exitCode).toBe(2);
  expect(stderr).toBe("HA_LEASE_DURATION_SECONDS: got 15, takes more than HA_RENEW_DEADLINE_SECONDS's 20");
});

test('an unknown command prints the usage', async () => {
  const { exitCode, stderr } = await operatorCommand(['aply-crds'], {});
  expect(exitCode).toBe(2);
  expect(stderr).toContain('unknown arguments: aply-crds');
  expect(stderr).toContain('apply-crds');
});

test.each([[['--help']], [['-h']], [['explain', '--help']], [['apply-crds', '-h']]])(
  '%j prints the usage',
  async (args) => {
    const { exitCode, stdout, stderr } = await operatorCommand(args, {});
    expect(stdout).toContain('Usage: echoperator [command]');
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  },
);

test('SIGTERM ends the process with exit code 0; probes and metrics report its state', async () => {
  const operator = await OperatorProcess.start(cluster.kubeconfig);
  // A change, not what was there before: caches that only list are ready too.
  const key = { namespace: await cluster.namespace(), name: 'seen' };
  await cluster.client.create(Echo, echoManifest(key, { message: 'seen' }));
  await cluster.job(key);
  expect((await fetch(`http://127.0.0.1:${operator.healthPort}/healthz`)).status).toBe(200);
  expect((await fetch(`http://127.0.0.1:${operator.healthPort}/nothing`)).status).toBe(404);
  const metrics = await operator.metrics();
  expect(metrics).toMatch(/^controller_runtime_max_concurrent_reconciles\{controller="echo"\} 8$/m);
  expect(metrics).toMatch(/^rest_client_requests_total\{code="200",host="127\.0\.0\.1:\d+",method="GET"\} \d+$/m);
  const { exitCode, output } = await operator.stop();
  expect(exitCode).toBe(0);
  expect(output).toContain('operator has stopped');
});

test('a port in use is reported', async () => {
  const operator = await OperatorProcess.start(cluster.kubeconfig);
  const { exitCode, stderr } = await operatorCommand([], {
    KUBECONFIG: cluster.kubeconfig,
    HEALTH_PORT: String(operator.metricsPort),
    METRICS_ENABLED: 'false',
    LOG_LEVEL: 'error',
  });
  await operator.stop();
  expect(exitCode).toBe(2);
  expect(stderr).toContain(`port ${operator.metricsPort} of /healthz is in use: choose another one`);
});

test('METRICS_ENABLED=false disables the metrics but not the probes', async () => {
  const operator = await OperatorProcess.start(cluster.kubeconfig, { METRICS_ENABLED: 'false' });
  await expect(operator.metrics()).rejects.toThrow();
  expect((await fetch(`http://127.0.0.1:${operator.healthPort}/readyz`)).status).toBe(200);
  await operator.stop();
});

test.each([
  ['true', 'waiting for the list of leases in all namespaces: another operator may work in the same namespaces'],
  ['false', 'waiting for the cache of echos.mmontes.io, jobs.batch'],
])(
  'without an API server the process is alive, not ready, and says what it waits for (SCOPE_CHECK=%s)',
  async (SCOPE_CHECK, waits) => {
    // Discard's port: nothing listens there.
    const kubeconfig = JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:9' } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    });
    const folder = await mkdtemp(join(tmpdir(), 'echoperator-no-server-'));
    await writeFile(join(folder, 'config'), kubeconfig);
    const [healthPort] = await freePorts();
    const child = operatorCommand([], {
      KUBECONFIG: join(folder, 'config'),
      HEALTH_PORT: String(healthPort),
      METRICS_ENABLED: 'false',
      LOG_LEVEL: 'error',
      SCOPE_CHECK,
    });
    try {
      const text = await eventually('/readyz answers', async () => {
        const response = await fetch(`http://127.0.0.1:${healthPort}/readyz`);
        return response.status === 503 && response.text();
      });
      expect(text).toContain(waits);
      expect((await fetch(`http://127.0.0.1:${healthPort}/healthz`)).status).toBe(200);
    } finally {
      child.kill('SIGTERM');
      expect((await child).exitCode).toBe(0);
      await rm(folder, { recursive: true });
    }
  },
);
