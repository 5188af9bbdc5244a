import { EventEmitter } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineController, done, type Operator, type Result, runOperator } from '@echoperator/runtime';
import { cache } from '@echoperator/runtime/controller';
import { LeadershipLostError } from '@echoperator/runtime/leader-election';
import { askForExplanation, type ExplainResponse, type OperatorProcess } from '@echoperator/runtime/process';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { eventually } from '../../../../testkit/eventually.ts';
import { freePorts } from '../../../../testkit/free-ports.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { Part, Planet, stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { electionLease, heldBy, leasePath, leasesPath, slowTimings } from '../../environment/election.ts';
import { Gadget, gadget } from '../../environment/gadgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

/** A process that notes what is done to it. */
class FakeProcess extends EventEmitter implements OperatorProcess {
  readonly env: NodeJS.ProcessEnv;
  readonly written: string[] = [];
  readonly exits: number[] = [];
  readonly stderr = { write: (text: string) => this.written.push(text) };
  exitCode?: number;

  constructor(env: NodeJS.ProcessEnv) {
    super();
    this.env = env;
  }

  exit(code: number): void {
    this.exits.push(code);
  }
}

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'run-operator-'));
});
afterEach(() => rm(home, { recursive: true }));

describe('without an API server', () => {
  test('prints one line and sets the exit code 2', async () => {
    const process = new FakeProcess({ HOME: home });
    let setUp = false;
    await runOperator(process, { name: 'greeter', log: new RecordingLog() }, () => {
      setUp = true;
    });
    expect(process.written).toEqual([expect.stringMatching(/^greeter: cannot find an API server: .+\n$/)]);
    expect(process.exitCode).toBe(2);
    expect(setUp).toBe(false);
  });
});

describe('with an API server', () => {
  let server: ScriptedServer;
  let process: FakeProcess;
  beforeEach(async () => {
    server = await ScriptedServer.start();
    const kubeconfig = join(home, 'kubeconfig');
    const content = {
      clusters: [
        { name: 'here', cluster: { server: server.connection.server.origin, 'insecure-skip-tls-verify': true } },
      ],
      users: [{ name: 'me', user: {} }],
      contexts: [{ name: 'main', context: { cluster: 'here', user: 'me' } }],
      'current-context': 'main',
    };
    await writeFile(kubeconfig, stringify(content));
    process = new FakeProcess({ KUBECONFIG: kubeconfig });
  });
  afterEach(() => server.close());

  const answerProbes = async (port: number): Promise<Record<string, string>> => {
    const answers = ['healthz', 'readyz', 'metrics'].map(async (path) => {
      const answer = await fetch(`http://127.0.0.1:${port}/${path}`);
      return [path, `${answer.status} ${await answer.text()}`];
    });
    return Object.fromEntries(await Promise.all(answers));
  };

  test('reconciles, serves probes, and stops on SIGTERM', async () => {
    const [port] = await freePorts();
    const reconciled = Promise.withResolvers<string>();
    const log = new RecordingLog();
    const running = runOperator(process, { name: 'greeter', log, port }, ({ manager }: Operator) => {
      manager.controller(Widget, {
        reconcile: async ({ name }) => {
          reconciled.resolve(name);
          return done;
        },
      });
    });
    const list = await server.next({ path: widgetsPath });
    expect(await answerProbes(port)).toMatchObject({
      healthz: '200 ok\n',
      readyz: '503 waiting for the cache of widgets.test.example\n',
    });
    list.list('10', [stored('a', '1')]);
    expect(await reconciled.promise).toBe('a');
    expect(await answerProbes(port)).toMatchObject({
      readyz: '200 ok\n',
      metrics: expect.stringContaining('controller_runtime_active_workers{controller="widget"}'),
    });
    process.emit('SIGTERM');
    await running;
    expect(process.exits).toEqual([]);
    expect(log.messages('info')).toContain('asked to stop');
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
  });

  test('is ready only with its webhooks, and serves probes until they have stopped', async () => {
    const [port] = await freePorts();
    let waitingFor: string | undefined = 'a certificate';
    const [stopping, stop] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const webhooks = {
      start: async () => ({
        waitingFor: () => waitingFor,
        stop: async () => {
          waitingFor = 'stopping';
          stopping.resolve();
          await stop.promise;
        },
      }),
    };
    const running = runOperator(process, { name: 'greeter', log: new RecordingLog(), port, webhooks });
    await eventually('the probes are served', () => answerProbes(port));
    await eventually('the webhooks are missing', async () => {
      const { readyz } = await answerProbes(port);
      return readyz === '503 waiting for a certificate\n';
    });
    waitingFor = undefined;
    expect(await answerProbes(port)).toMatchObject({ readyz: '200 ok\n' });
    process.emit('SIGTERM');
    await stopping.promise;
    await eventually('the operator stops', async () => (await answerProbes(port)).readyz === '503 stopping\n');
    stop.resolve();
    await running;
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
  });

  test('ends with the exit code 2 if the port of its webhooks is in use', async () => {
    const [port] = await freePorts();
    const inUse = Object.assign(new Error('listen EADDRINUSE'), { code: 'EADDRINUSE', port });
    const webhooks = { start: () => Promise.reject(inUse) };
    await runOperator(process, { name: 'greeter', log: new RecordingLog(), webhooks });
    expect(process.written).toEqual([`greeter: port ${port} of the webhooks is in use: choose another one\n`]);
    expect(process.exitCode).toBe(2);
  });

  test('serves the metrics on a port of their own, or nowhere', async () => {
    const [port, metricsPort] = await freePorts();
    const statusOf = async (where: number, path: string) => (await fetch(`http://127.0.0.1:${where}/${path}`)).status;
    const metrics = { port: metricsPort, path: '/numbers' };
    const running = runOperator(process, { name: 'greeter', log: new RecordingLog(), port, metrics }, ({ manager }) => {
      manager.informer(Widget);
    });
    await server.next({ path: widgetsPath });
    expect(await statusOf(metricsPort, 'numbers')).toBe(200);
    expect(await statusOf(metricsPort, 'healthz')).toBe(404);
    expect([await statusOf(port, 'healthz'), await statusOf(port, 'metrics')]).toEqual([200, 404]);
    process.emit('SIGTERM');
    await running;

    process = new FakeProcess(process.env);
    const silent = runOperator(process, { name: 'greeter', log: new RecordingLog(), port, metrics: false }, (made) => {
      made.manager.informer(Widget);
    });
    await server.next({ path: widgetsPath });
    expect([await statusOf(port, 'healthz'), await statusOf(port, 'metrics')]).toEqual([200, 404]);
    process.emit('SIGTERM');
    await silent;
  });

  test('closes the port of the probes if that of the metrics is in use', async () => {
    const [port] = await freePorts();
    const metrics = { port: Number(server.connection.server.port), path: '/metrics' };
    await runOperator(process, { name: 'greeter', log: new RecordingLog(), port, metrics });
    expect(process.written).toEqual([`greeter: port ${metrics.port} of /metrics is in use: choose another one\n`]);
    expect(process.exitCode).toBe(2);
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
  });

  test('answers questions about its reconciles, from the start to the end', async () => {
    const log = new RecordingLog();
    const query = { kind: 'widget', namespace: 'default', name: 'a' };
    const notes = (kind: string) => [`${kind} is new`];
    const asked: unknown[] = [];
    const running = runOperator(
      process,
      { name: 'greeter', log, explain: { folder: home, notes } },
      async (operator) => {
        asked.push(await askForExplanation(home, { ...query, kind: 'gadget' }));
        operator.manager.controller(Widget, { reconcile: async () => done });
      },
    );
    (await server.next({ path: widgetsPath })).list('10', [stored('a', '1')]);
    expect(asked).toEqual([{ problem: expect.stringContaining('reconciles no kind gadget'), notes: [] }]);
    await eventually('it is recorded', async () => {
      const answer = (await askForExplanation(home, query)) as ExplainResponse;
      return answer.explanation?.total === 1 && answer.notes.includes('Widget is new');
    });
    process.emit('SIGTERM');
    await running;
    await expect(askForExplanation(home, query)).rejects.toThrow('ENOENT');
  });

  test('runs without explanations where the socket cannot be made', async () => {
    const log = new RecordingLog();
    await writeFile(join(home, 'file'), '');
    const running = runOperator(process, { name: 'greeter', log, explain: { folder: join(home, 'file') } }, (made) => {
      made.manager.informer(Widget);
    });
    await server.next({ path: widgetsPath });
    expect(log.messages('warn')).toEqual(['no socket for explanations: choose another folder']);
    process.emit('SIGTERM');
    await running;
  });

  test.each([
    ['its name and the host', {}, { controller: 'greeter', instance: hostname(), userAgent: 'greeter' }],
    [
      'its options',
      { reportingController: 'example.com/greeter', instance: 'pod-1', userAgent: 'greeter/1' },
      { controller: 'example.com/greeter', instance: 'pod-1', userAgent: 'greeter/1' },
    ],
  ])('identifies itself in Events and requests by %s', async (_, options, { controller, instance, userAgent }) => {
    const running = runOperator(process, { name: 'greeter', log: new RecordingLog(), ...options }, ({ events }) => {
      events.record(Widget, stored('a', '1'), { type: 'Normal', reason: 'Made', action: 'Make', note: 'made' });
    });
    const request = await server.next({ method: 'POST' });
    request.json(201, {});
    expect(request.body).toMatchObject({ reportingController: controller, reportingInstance: instance });
    expect(request.headers['user-agent']).toBe(userAgent);
    process.emit('SIGTERM');
    await running;
  });

  test('runs the controllers of its list, with the options that apply to all of them', async () => {
    const reconciled = Promise.withResolvers<string>();
    const controller = defineController(Gadget, {
      reasons: {},
      owns: [Part],
      refersTo: [{ kind: Planet, keys: () => [] }],
      reconcile: async ({ metadata }) => reconciled.resolve(metadata.name),
    });
    const transform = (part: Part): Part => part;
    const running = runOperator(process, {
      name: 'greeter',
      log: new RecordingLog(),
      controllers: [controller],
      namespaces: ['default'],
      caches: [cache(Part, { labelSelector: 'mine', transform })],
    });
    (await server.next({ path: '/apis/test.example/v1/namespaces/default/gadgets' })).list('10', [gadget()]);
    const parts = await server.next({ path: '/apis/test.example/v1/namespaces/default/parts' });
    expect(parts.query.get('labelSelector')).toBe('mine');
    parts.list('10', []);
    (await server.next({ path: '/apis/test.example/v1/planets' })).list('10', []);
    expect(await reconciled.promise).toBe('a');
    process.emit('SIGTERM');
    await running;
  });

  test('contends for a Lease that has only a name, in the namespace default outside of a cluster', async () => {
    const log = new RecordingLog();
    const running = runOperator(process, { name: 'greeter', log, leaderElection: 'greeter' });
    const request = await server.next({ method: 'GET' });
    expect(request.path).toBe('/apis/coordination.k8s.io/v1/namespaces/default/leases/greeter');
    process.emit('SIGTERM');
    request.refuse(404, 'NotFound');
    await running;
  });

  test('prints one line and sets the exit code 2 if the port is in use', async () => {
    const port = Number(server.connection.server.port);
    await runOperator(process, { name: 'greeter', log: new RecordingLog(), port });
    expect(process.written).toEqual([`greeter: port ${port} of /healthz is in use: choose another one\n`]);
    expect(process.exitCode).toBe(2);
  });

  test('uses the given connection without a search for another', async () => {
    process = new FakeProcess({ HOME: home });
    const { connection } = server;
    const running = runOperator(process, { name: 'greeter', log: new RecordingLog(), connection }, ({ manager }) => {
      manager.informer(Widget);
    });
    await server.next({ path: widgetsPath });
    process.emit('SIGTERM');
    await running;
    expect(process.written).toEqual([]);
  });

  test('exits at once with 1 when it loses its Lease, and sends no more requests', async () => {
    const begun = Promise.withResolvers<void>();
    const deaf = Promise.withResolvers<Result>();
    let operator: Operator | undefined;
    const leaderElection = { lease: electionLease, timings: slowTimings };
    const log = new RecordingLog();
    const running = runOperator(process, { name: 'greeter', log, leaderElection }, (made) => {
      operator = made;
      made.manager.controller(Widget, {
        reconcile: () => {
          begun.resolve();
          return deaf.promise;
        },
      });
    });
    (await server.next({ path: leasePath, method: 'GET' })).refuse(404, 'NotFound');
    const creation = await server.next({ path: leasesPath, method: 'POST' });
    const { spec } = creation.body as ReturnType<typeof heldBy>;
    expect(spec.holderIdentity).toMatch(new RegExp(`^${hostname()}_[-0-9a-f]{36}$`));
    creation.json(201, heldBy(spec.holderIdentity, '1'));
    const renewal = await server.next({ path: leasePath, method: 'PUT' });
    (await server.next({ path: widgetsPath })).list('10', [stored('a', '1')]);
    await begun.promise;
    renewal.refuse(409, 'Conflict');
    (await server.next({ path: leasePath, method: 'GET' })).json(200, heldBy('other_1', '2'));
    await running;
    expect(process.exits).toEqual([1]);
    expect(process.written).toEqual(['greeter: the lease ns/greeter is held by other_1\n']);
    expect(log.messages('error')).toEqual(['the lease is lost: starting no new work']);
    await expect(operator?.client.get(Widget, { name: 'a', namespace: 'ns' })).rejects.toThrow(LeadershipLostError);
    deaf.resolve(done);
  });

  test('exits at once on a second signal', async () => {
    const running = runOperator(process, { name: 'greeter', log: new RecordingLog() }, ({ manager }) => {
      manager.informer(Widget);
    });
    await server.next({ path: widgetsPath });
    process.emit('SIGINT');
    process.emit('SIGINT');
    expect(process.exits).toEqual([1]);
    await running;
  });
});
