import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type HttpServer, serve } from '../../../../packages/runtime/src/observability/http-server.ts';
import { eventually } from '../../../../testkit/eventually.ts';

let listening: HttpServer;
let calls: number;
beforeEach(async () => {
  calls = 0;
  listening = await serve(0, {
    '/healthz': () => {
      calls += 1;
      return { code: 200, text: 'ok\n' };
    },
    '/readyz': async () => ({ code: 503, text: 'waiting\n' }),
    '/metrics': () => ({ code: 200, contentType: 'text/x-metrics', text: 'up 1\n' }),
    '/throws': () => {
      throw new Error('a defect');
    },
    '/never': () => {
      calls += 1;
      return new Promise(() => {});
    },
    '/long': () => {
      calls += 1;
      return { code: 200, text: 'x'.repeat(100_000) };
    },
    '/rejects': () => Promise.reject(new Error('another')),
  });
});
afterEach(() => listening.close());

async function ask(path: string, method = 'GET') {
  const response = await fetch(`http://127.0.0.1:${listening.port}${path}`, { method });
  return { code: response.status, type: response.headers.get('content-type'), text: await response.text(), response };
}

/** What is answered to these very bytes. */
function raw(request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket: Socket = connect(listening.port, '127.0.0.1', () => socket.end(request));
    socket.on('data', (chunk) => {
      answer += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(answer));
  });
}

describe('a path', () => {
  test('is handled by its route', async () => {
    expect(await ask('/healthz')).toMatchObject({ code: 200, type: 'text/plain; charset=utf-8', text: 'ok\n' });
    expect(await ask('/readyz')).toMatchObject({ code: 503, text: 'waiting\n' });
    expect(await ask('/metrics')).toMatchObject({ code: 200, type: 'text/x-metrics', text: 'up 1\n' });
  });

  test('is the same with a query', async () => {
    expect(await ask('/healthz?verbose=1&x=/y')).toMatchObject({ code: 200, text: 'ok\n' });
  });

  test.each(['/', '/health', '/healthz/', '/healthz/x', '/constructor', '/__proto__', '/toString'])(
    '%s that nobody serves is not found',
    async (path) => {
      expect(await ask(path)).toMatchObject({ code: 404, text: 'not found\n' });
    },
  );

  test.each(['//', '///', '//[', '/\\', '*', 'http://[/', '%'])(
    '%s that is no URL is not found either, and the server lives on',
    async (target) => {
      expect(await raw(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)).toMatch(
        /^HTTP\/1\.1 40[04] /,
      );
      expect(await ask('/healthz')).toMatchObject({ code: 200 });
    },
  );

  test.each([
    ['/throws', 'Error: a defect'],
    ['/rejects', 'Error: another'],
  ])('%s whose route fails responds with 500 and the error', async (path, text) => {
    expect(await ask(path)).toMatchObject({ code: 500, text });
    expect(await ask('/healthz')).toMatchObject({ code: 200 });
  });
});

describe('a method', () => {
  test('HEAD gets the code and the type, but no body', async () => {
    expect(await ask('/metrics', 'HEAD')).toMatchObject({ code: 200, type: 'text/x-metrics', text: '' });
    expect(await ask('/readyz', 'HEAD')).toMatchObject({ code: 503, text: '' });
  });

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])('%s is refused without a call of the route', async (method) => {
    const { code, response } = await ask('/healthz', method);
    expect([code, response.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    expect(calls).toBe(0);
  });
});

test('close does not wait for a response', async () => {
  const broken = expect(ask('/never')).rejects.toThrow('fetch failed');
  await eventually('the server has taken it', async () => calls === 1);
  await listening.close();
  await broken;
});

describe('a port', () => {
  test('that is in use is an error with the port', async () => {
    const { port } = listening;
    await expect(serve(port, {})).rejects.toMatchObject({ code: 'EADDRINUSE', port });
  });

  test('is free after close, which does not wait for clients', async () => {
    const { port } = listening;
    const socket = connect(port, '127.0.0.1');
    await new Promise((resolve) => socket.once('connect', resolve));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => {});
    await listening.close();
    await closed;
    listening = await serve(port, { '/healthz': () => ({ code: 200, text: 'again' }) });
    expect(await ask('/healthz')).toMatchObject({ text: 'again' });
  });
});

test.each([
  ['no request', ''],
  ['a request that does not end', 'GET /healthz HTTP/1.1\r\nHost: a\r\n'],
])('a connection with %s is closed, so that idle ones do not add up', async (_, begin) => {
  const openedAtMs = performance.now();
  const socket = connect(listening.port, '127.0.0.1', () => socket.write(begin));
  socket.on('error', () => {});
  socket.resume();
  let isClosed = false;
  socket.once('close', () => {
    isClosed = true;
  });
  await eventually('the server closes the connection', async () => isClosed);
  // By default Node would take 60 s or more.
  expect(performance.now() - openedAtMs).toBeLessThan(40_000);
  expect(calls).toBe(0);
});

test('a client that asks on without reading the responses is cut off', async () => {
  const socket = connect(listening.port, '127.0.0.1', () => {
    socket.write('GET /long HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(3000));
  });
  socket.on('error', () => {});
  let isClosed = false;
  socket.once('close', () => {
    isClosed = true;
  });
  await eventually('the server closes the connection', async () => {
    socket.resume();
    return isClosed;
  });
  expect(calls).toBeLessThan(10);
  expect((await ask('/healthz')).code).toBe(200);
});

test('a burst of requests costs about as much as one', async () => {
  const bytes = Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2000));
  const before = process.cpuUsage();
  for (let each = 0; each < 40; each += 1) {
    const socket = connect(listening.port, '127.0.0.1', () => socket.write(bytes));
    socket.on('error', () => {}).resume();
    await new Promise((resolve) => socket.once('close', resolve));
  }
  const { user, system } = process.cpuUsage(before);
  // Node's parser works through all that it has read, also after the connection is closed: that took more than 1 s.
  expect((user + system) / 1000).toBeLessThan(500);
});

test('of very many connections the oldest are closed, so that a probe is answered', async () => {
  const sockets = Array.from({ length: 200 }, () => connect(listening.port, '127.0.0.1'));
  const closed = new Set<Socket>();
  for (const socket of sockets) {
    socket.on('error', () => {});
    socket.resume();
    socket.once('close', () => closed.add(socket));
  }
  await eventually('the oldest are closed', async () => closed.size >= 200 - 64);
  expect(sockets.slice(-50).filter((socket) => closed.has(socket))).toEqual([]);
  expect((await ask('/healthz')).code).toBe(200);
  for (const socket of sockets) socket.destroy();
});
