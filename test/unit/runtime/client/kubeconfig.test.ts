import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { ConnectionError, connect, kubeconfigConnection } from '../../../../src/runtime/client/index.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kubeconfig-'));
});
afterEach(() => rm(directory, { recursive: true }));

interface Parts {
  readonly cluster?: object;
  readonly user?: object;
  readonly currentContext?: string;
}

/** Writes a kubeconfig with one cluster and one user, and returns its path. */
async function kubeconfig({ cluster = {}, user = {}, currentContext = 'main' }: Parts = {}): Promise<string> {
  const path = join(directory, 'config');
  const content = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'here', cluster: { server: 'https://127.0.0.1:6443/behind', ...cluster } }],
    users: [{ name: 'me', user }],
    contexts: [{ name: 'main', context: { cluster: 'here', user: 'me' } }],
    'current-context': currentContext,
  };
  await writeFile(path, stringify(content));
  return path;
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('a kubeconfig', () => {
  test('tells server, CA and client certificate', async () => {
    const path = await kubeconfig({
      cluster: { 'certificate-authority-data': base64('the CA'), 'tls-server-name': 'kubernetes' },
      user: { 'client-certificate-data': base64('the certificate'), 'client-key-data': base64('the key') },
    });
    const connection = await kubeconfigConnection(path);
    expect(connection.server.href).toBe('https://127.0.0.1:6443/behind');
    const { ca, cert, key, servername } = connection.tls;
    expect([ca, cert, key].map(String)).toEqual(['the CA', 'the certificate', 'the key']);
    expect(servername).toBe('kubernetes');
    expect(await connection.authentication()).toEqual({});
  });

  test('asks for no verification only where it says so', async () => {
    expect((await kubeconfigConnection(await kubeconfig())).tls.rejectUnauthorized ?? true).toBe(true);
    const path = await kubeconfig({ cluster: { 'insecure-skip-tls-verify': true } });
    expect((await kubeconfigConnection(path)).tls.rejectUnauthorized).toBe(false);
  });

  test('of a user with a token', async () => {
    const connection = await kubeconfigConnection(await kubeconfig({ user: { token: 'secret' } }));
    expect(await connection.authentication()).toEqual({ Authorization: 'Bearer secret' });
  });

  test('of a user with name and password', async () => {
    const path = await kubeconfig({ user: { username: 'jane', password: 'sécret' } });
    const connection = await kubeconfigConnection(path);
    expect(await connection.authentication()).toEqual({ authorization: `Basic ${base64('jane:sécret')}` });
  });

  test('of a user with a plugin that prints a token', async () => {
    const credential = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'printed' },
    };
    const exec = {
      apiVersion: credential.apiVersion,
      command: process.execPath,
      args: ['-p', JSON.stringify(JSON.stringify(credential))],
      interactiveMode: 'Never',
    };
    const connection = await kubeconfigConnection(await kubeconfig({ user: { exec } }));
    expect(await connection.authentication()).toEqual({ Authorization: 'Bearer printed' });
  });
});

describe('a kubeconfig that leads nowhere is refused, with its path', () => {
  const refused = async (path: string): Promise<string> => {
    const error = await kubeconfigConnection(path).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConnectionError);
    return (error as ConnectionError).message;
  };

  test('no such file', async () => {
    const path = join(directory, 'missing');
    expect(await refused(path)).toContain(`cannot read the kubeconfig ${path}: `);
  });

  test('not YAML', async () => {
    const path = join(directory, 'config');
    await writeFile(path, '{ not: [yaml');
    expect(await refused(path)).toContain(`cannot read the kubeconfig ${path}: `);
  });

  test.each(['', 'gone'])('no such current context: "%s"', async (currentContext) => {
    const path = await kubeconfig({ currentContext });
    expect(await refused(path)).toBe(
      `the kubeconfig ${path} has no cluster for its current context "${currentContext}"`,
    );
  });

  test('a server that is no URL', async () => {
    const path = await kubeconfig({ cluster: { server: 'not a server' } });
    expect(await refused(path)).toBe(`the kubeconfig ${path} names the server "not a server", which is not a URL`);
  });

  test('a certificate that is not where it says', async () => {
    const path = await kubeconfig({
      user: { 'client-certificate': join(directory, 'no.crt'), 'client-key': 'no.key' },
    });
    const message = await refused(path);
    expect(message).toContain(`cannot use the kubeconfig ${path}: `);
    expect(message).toContain('no.crt');
  });

  test('a proxy', async () => {
    const path = await kubeconfig({ cluster: { 'proxy-url': 'http://proxy.example:3128' } });
    expect(await refused(path)).toContain('proxy http://proxy.example:3128: proxies are not supported');
  });
});

describe('connect', () => {
  test('takes the kubeconfig that is given, also in a pod', async () => {
    const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    const { server } = await connect({ kubeconfigPath: await kubeconfig(), environment });
    expect(server.host).toBe('127.0.0.1:6443');
  });

  test('names the places where it has looked, if there is nothing at any of them', async () => {
    await expect(connect({ kubeconfigPath: undefined, environment: { HOME: directory } })).rejects.toThrow(
      `this is no pod, KUBECONFIG is not set, and ${join(directory, '.kube', 'config')} can't be read`,
    );
  });

  test('takes the service account in a pod', async () => {
    const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    const found = await connect({ kubeconfigPath: undefined, environment }).then(
      ({ server }) => server.host,
      (error: unknown) => String(error),
    );
    // The second where these tests do not run in a pod themselves.
    expect(found).toMatch(/^10\.96\.0\.1$|serviceaccount\/ca\.crt/);
  });
});
