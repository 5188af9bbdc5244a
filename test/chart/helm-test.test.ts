import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { execa } from 'execa';
import { Helm, helmNames } from './helm.ts';

describe.each(helmNames)('the pod of `helm test`, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });

  it('requests health and metrics from their Services', async () => {
    const rendering = await render({ health: { port: 9000 }, monitoring: { port: 9090, path: '/stats' } });
    const { metadata, spec } = rendering.one('Pod', 'demo-echoperator-test');
    expect(metadata?.annotations).toEqual({
      'helm.sh/hook': 'test',
      'helm.sh/hook-delete-policy': 'before-hook-creation',
    });
    expect(spec?.restartPolicy).toBe('Never');
    expect(spec?.containers[0]?.args?.slice(1)).toEqual([
      'http://demo-echoperator-health:9000/readyz',
      'http://demo-echoperator-metrics:9090/stats',
    ]);
    expect(rendering.names()).toEqual(
      expect.arrayContaining(['Service/demo-echoperator-health', 'Service/demo-echoperator-metrics']),
    );
  });

  it('requests only health if metrics are off', async () => {
    const { spec } = (await render({ monitoring: { enabled: false } })).one('Pod');
    expect(spec?.containers[0]?.args?.slice(1)).toEqual(['http://demo-echoperator-health:8081/readyz']);
  });

  it('contains no text that the kubelet would expand', async () => {
    const { spec } = (await render()).one('Pod');
    expect(spec?.containers[0]?.args?.join('\n')).not.toContain('$(');
  });
});

describe('the script of `helm test`', () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  async function answering(...answers: readonly [status: number, text: string][]): Promise<string> {
    let asked = 0;
    const server = createServer((_, response) => {
      const [status, text] = answers[Math.min(asked, answers.length - 1)]!;
      asked += 1;
      response.writeHead(status).end(text);
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/readyz`;
  }

  /** Runs the pod's arguments with other URLs and another time limit in the script. */
  async function run(addresses: readonly string[], timeoutMs: number) {
    const [container] = (await (await Helm.find('helm')).render()).one('Pod').spec!.containers;
    const [node, ...options] = container?.command ?? [];
    expect(node).toBe('/usr/local/bin/node');
    const script = container!.args![0]!.replace('timeoutMs = 60_000', `timeoutMs = ${timeoutMs}`);
    expect(script).toContain(`timeoutMs = ${timeoutMs};`);
    return execa(process.execPath, [...options, script, ...addresses], { reject: false });
  }

  it('succeeds and prints the answers as soon as every URL has answered', async () => {
    const addresses = [await answering([503, 'waiting'], [200, 'ok\n']), await answering([200, 'up 1\n'])];
    const { exitCode, stdout } = await run(addresses, 30_000);
    expect(stdout.split('\n')).toEqual([`${addresses[0]}: 200, 3 bytes`, `${addresses[1]}: 200, 5 bytes`]);
    expect(exitCode).toBe(0);
  });

  it.each([
    [
      'the answer of an operator that is not ready',
      [503, 'waiting for the cache of echos'] as const,
      'waiting for the cache of echos',
    ],
    ['an empty answer', [200, ''] as const, 'answered 200 with an empty body'],
  ])('fails with the reason if it gets %s', async (_, answer, reason) => {
    const address = await answering([...answer]);
    const { exitCode, stderr } = await run([address], 1);
    expect(stderr).toContain(address);
    expect(stderr).toContain(reason);
    expect(exitCode).toBe(1);
  });
});
