import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { ApiError, GateClosedError, NoResponseError, type RequestObserver } from '@echoperator/runtime/client';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

let server: ScriptedServer;
let transport: Transport;
let observed: string[];
const observe: RequestObserver = (method, code) => observed.push(`${method} ${code}`);

beforeEach(async () => {
  observed = [];
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1', observe });
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const get = { method: 'GET', path: '/x' } as const;

describe('a request', () => {
  test('sends its parts and returns the JSON of the response', async () => {
    const answer = transport.request({
      method: 'PATCH',
      path: '/x',
      query: 'labelSelector=a%3Db%2Cc!%3Dd',
      body: { message: 'Hola, 世界!' },
      contentType: 'application/merge-patch+json',
    });
    const request = await server.next();
    expect(request).toMatchObject({ method: 'PATCH', path: '/x', body: { message: 'Hola, 世界!' } });
    expect(request.query.get('labelSelector')).toBe('a=b,c!=d');
    expect(request.headers).toMatchObject({
      accept: 'application/json',
      'user-agent': 'test/1',
      'content-type': 'application/merge-patch+json',
    });
    request.json(200, { greeting: '世界' });
    expect(await answer).toEqual({ greeting: '世界' });
    expect(observed).toEqual(['PATCH 200']);
  });

  test('without a body has no content type', async () => {
    const answer = transport.request(get);
    const request = await server.next();
    expect(request.headers).not.toHaveProperty('content-type');
    request.json(200, {});
    await answer;
  });

  test('calls authentication for each request', async () => {
    const { connection } = server;
    let count = 0;
    const authenticated = new Transport(
      { ...connection, authentication: async () => ({ authorization: `Bearer ${++count}` }) },
      { userAgent: 'test/1' },
    );
    try {
      for (const token of ['Bearer 1', 'Bearer 2']) {
        const answer = authenticated.request(get);
        const request = await server.next();
        expect(request.headers.authorization).toBe(token);
        request.json(200, {});
        await answer;
      }
    } finally {
      await authenticated.close();
    }
  });

  test('fails with the error of the authentication, and is counted', async () => {
    const cause = new Error('no token');
    const { connection } = server;
    const unauthenticated = new Transport(
      { ...connection, authentication: () => Promise.reject(cause) },
      { userAgent: 'test/1', observe },
    );
    try {
      await expect(unauthenticated.request(get)).rejects.toBe(cause);
      expect(observed).toEqual(['GET <error>']);
    } finally {
      await unauthenticated.close();
    }
  });

  test.each(['/prefix', '/prefix/'])('is sent to a server with the path prefix %s', async (path) => {
    const { connection } = server;
    const behind = new Transport({ ...connection, server: new URL(path, connection.server) }, { userAgent: 'test/1' });
    try {
      const answer = behind.request(get);
      const request = await server.next();
      expect(request.path).toBe('/prefix/x');
      request.json(200, {});
      await answer;
    } finally {
      await behind.close();
    }
  });
});

describe('an error response', () => {
  const refused = async (
    answer: (exchange: Awaited<ReturnType<ScriptedServer['next']>>) => void,
  ): Promise<ApiError> => {
    const outcome = transport.request(get).then(
      () => undefined,
      (error: unknown) => error,
    );
    answer(await server.next());
    const error = await outcome;
    expect(error).toBeInstanceOf(ApiError);
    return error as ApiError;
  };

  test('throws the Status that the server sent', async () => {
    const details = { causes: [{ reason: 'FieldValueInvalid', field: 'spec.message', message: 'too long' }] };
    const error = await refused((exchange) => exchange.refuse(422, 'Invalid', { details, message: 'spec.message' }));
    expect(error).toMatchObject({ code: 422, reason: 'Invalid', request: 'GET /x', status: { details } });
    expect(error.message).toBe('GET /x: 422 Invalid: spec.message; spec.message: too long');
    expect(observed).toEqual(['GET 422']);
  });

  test('of a proxy has its text as the message', async () => {
    const html = '<html><body>Bad Gateway</body></html>';
    const error = await refused((exchange) => exchange.text(502, 'text/html', html));
    expect(error).toMatchObject({ code: 502, reason: 'Unknown', status: { code: 502, message: html } });
  });

  test('has a message of limited length', async () => {
    const error = await refused((exchange) => exchange.text(500, 'text/plain', 'x'.repeat(5000)));
    expect(error.status.message).toHaveLength(1000);
  });

  test.each([
    ['nothing', ''],
    ['JSON that is no Status', '{"error":"no"}'],
    ['JSON that is no object', 'null'],
  ])('with %s as body is an ApiError', async (_, text) => {
    const error = await refused((exchange) => exchange.text(503, 'application/json', text));
    expect(error).toMatchObject({ code: 503, status: { message: text } });
  });
});

describe('a response that is not from the API server', () => {
  test.each([
    ['a page', 200, '<html>Please log in</html>'],
    ['nothing', 200, ''],
    ['a redirect', 302, ''],
  ])('%s is an error with the request in its message', async (_, code, text) => {
    const answer = transport.request(get);
    (await server.next()).text(code, 'text/html', text);
    await expect(answer).rejects.toThrow(new RegExp(`GET /x: ${code} `));
  });
});

describe('after a request without a response in time, further ones use new connections', () => {
  /** Opens so many idle connections. */
  async function openConnections(count: number): Promise<void> {
    const answers = Array.from({ length: count }, () => transport.request(get));
    const requests = [];
    for (const _ of answers) requests.push(await server.next());
    for (const request of requests) request.json(200, {});
    await Promise.all(answers);
  }

  /** Sends so many requests at once, and returns how many of them opened a connection. */
  async function newConnections(count: number): Promise<number> {
    const before = server.connections;
    const answers = Array.from({ length: count }, () => transport.request({ ...get, path: '/later' }));
    const requests = [];
    for (const _ of answers) requests.push(await server.next({ path: '/later' }));
    for (const request of requests) request.json(200, {});
    await Promise.all(answers);
    return server.connections - before;
  }

  test('when the request or its signal timed out', async () => {
    await openConnections(3);
    await expect(transport.request({ ...get, timeoutMs: 20 })).rejects.toThrow('silent for too long');
    expect(await newConnections(3)).toBe(3);
    const signal = AbortSignal.any([new AbortController().signal, AbortSignal.timeout(50)]);
    await expect(transport.request({ ...get, signal })).rejects.toThrow('timeout');
    expect(await newConnections(3)).toBe(3);
  });

  test('but requests in flight end on the old ones, and time out for themselves', async () => {
    const inFlight = transport.request({ ...get, path: '/in-flight' });
    const request = await server.next({ path: '/in-flight' });
    const silent = transport.request({ ...get, path: '/silent', timeoutMs: 1000 }).catch(() => {});
    const sameSilence = transport.request({ ...get, path: '/silent', timeoutMs: 1200 }).catch(() => {});
    await silent;
    expect(await newConnections(1)).toBe(1);
    await sameSilence;
    // The first timeout has replaced the connections; a later one of the old ones replaces nothing.
    await setImmediate();
    expect(await newConnections(1)).toBe(0);
    request.json(200, 'there');
    expect(await inFlight).toBe('there');
  });

  test('but not when the caller gave up', async () => {
    await openConnections(3);
    const controller = new AbortController();
    const given = expect(transport.request({ ...get, path: '/up', signal: controller.signal })).rejects.toThrow(
      'enough',
    );
    await server.next({ path: '/up' });
    controller.abort(new Error('enough'));
    await given;
    // The abort has closed one connection; the others are still in use.
    expect(await newConnections(3)).toBeLessThan(3);
  });

  test('also for watches', async () => {
    const open = async () => {
      const opening = transport.stream({ ...get, path: '/watch' });
      const watch = (await server.next({ path: '/watch' })).stream();
      watch.write('x');
      return { body: await opening, watch };
    };
    // Watches that have ended leave idle connections.
    for (const { body, watch } of [await open(), await open(), await open()]) {
      watch.end();
      await body.toArray();
    }
    expect(server.connections).toBe(3);
    const signal = AbortSignal.timeout(50);
    await expect(transport.stream({ ...get, path: '/silent', signal })).rejects.toThrow('timeout');
    const connections = server.connections;
    await open();
    await open();
    await open();
    expect(server.connections).toBe(connections + 3);
  });
});

describe('a request ends', () => {
  const silence = { name: 'NoResponseError', message: 'GET /x: no response: the server was silent for too long' };

  test('after the timeout of the request', async () => {
    await expect(transport.request({ ...get, timeoutMs: 20 })).rejects.toMatchObject(silence);
    expect(observed).toEqual(['GET <error>']);
  });

  test('after the timeout of the transport', async () => {
    const impatient = new Transport(server.connection, { userAgent: 'test/1', timeoutMs: 20 });
    try {
      await expect(impatient.request(get)).rejects.toMatchObject(silence);
    } finally {
      await impatient.close();
    }
  });

  test('after a timeout in the middle of the body', async () => {
    const refused = expect(transport.request({ ...get, timeoutMs: 500 })).rejects.toMatchObject(silence);
    (await server.next()).stream().write('{"half":');
    await refused;
  });

  test('not while a long response still makes progress', async () => {
    const timeoutMs = 400;
    const answer = transport.request({ ...get, timeoutMs });
    const stream = (await server.next()).stream();
    const startedAtMs = performance.now();
    stream.write('[0');
    // More pieces than fit into the time out, each within it.
    while (performance.now() - startedAtMs < 2 * timeoutMs) {
      await delay(20);
      stream.write(',1');
    }
    stream.write(']');
    stream.end();
    expect((await answer) as unknown[]).toContain(1);
  });

  test('when the signal aborts while it waits for the credentials of a hung plugin', async () => {
    const authentication = () => new Promise<never>(() => {});
    const waiting = new Transport({ ...server.connection, authentication }, { userAgent: 'test/1' });
    try {
      const controller = new AbortController();
      const reason = new Error('enough');
      const answers = [waiting.request, waiting.stream].map((send) =>
        send.call(waiting, { ...get, signal: controller.signal }),
      );
      const refused = answers.map((answer) => expect(answer).rejects.toBe(reason));
      controller.abort(reason);
      await Promise.all(refused);
      await expect(waiting.request({ ...get, timeoutMs: 20 })).rejects.toThrow(
        expect.objectContaining({ name: 'TimeoutError' }) as never,
      );
    } finally {
      await waiting.close();
    }
  });

  test('when the signal aborts, with its reason, and closes the connection', async () => {
    const controller = new AbortController();
    const answer = transport.request({ ...get, signal: controller.signal });
    const request = await server.next();
    const reason = new Error('enough');
    controller.abort(reason);
    await expect(answer).rejects.toBe(reason);
    await request.closed;
  });

  test('at once if the signal has already aborted', async () => {
    const reason = new Error('enough');
    await expect(transport.request({ ...get, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(server.unclaimed).toBe(0);
  });

  test('when the transport is closed', async () => {
    const answer = transport.request(get);
    const refused = expect(answer).rejects.toThrow();
    await server.next();
    await transport.close();
    await refused;
  });
});

describe('a request is retried', () => {
  const outcome = (answer: Promise<unknown>): Promise<unknown> => answer.catch((error: unknown) => error);
  const post = { method: 'POST', path: '/x', body: {} } as const;
  const soon = { 'retry-after': '0' };
  const busy = { kind: 'Status', code: 503, reason: 'ServiceUnavailable', message: 'starting' };

  test.each([
    ['POST', 429, 'Too many requests'],
    ['POST', 503, JSON.stringify(busy)],
    ['GET', 503, 'from a proxy'],
  ] as const)('%s after %i with a Retry-After: %s', async (method, code, text) => {
    const answer = transport.request({ ...post, method });
    (await server.next()).text(code, 'text/plain', text, soon);
    (await server.next({ method })).json(200, 'there');
    expect(await answer).toBe('there');
    expect(observed).toEqual([`${method} ${code}`, `${method} 200`]);
  });

  test('but not a write after a 503 of a proxy, which may have forwarded it', async () => {
    const answer = outcome(transport.request(post));
    (await server.next()).text(503, 'text/html', '<html>', soon);
    expect(await answer).toMatchObject({ code: 503, retryAfterSeconds: 0 });
  });

  test.each([429, 500, 503, 504])('but not after %i without a Retry-After', async (code) => {
    const answer = outcome(transport.request(get));
    (await server.next()).refuse(code, 'Whatever');
    expect(await answer).toMatchObject({ code, retryAfterSeconds: undefined });
  });

  test('but not after a Retry-After that is longer than the limit', async () => {
    const answer = outcome(transport.request(get));
    (await server.next()).text(429, 'text/plain', 'no', { 'retry-after': '3600' });
    expect(await answer).toMatchObject({ code: 429, retryAfterSeconds: 3600 });
  });

  test('but not without limit', async () => {
    const answer = outcome(transport.request(get));
    for (let tries = 0; tries < 10; tries += 1) (await server.next()).text(429, 'text/plain', `no ${tries}`, soon);
    expect(await answer).toMatchObject({ code: 429, status: { message: 'no 9' } });
    expect(observed).toHaveLength(10);
  });

  test('unless the signal aborts during the pause', async () => {
    const controller = new AbortController();
    const answer = outcome(transport.request({ ...get, signal: controller.signal }));
    (await server.next()).text(429, 'text/plain', 'no', { 'retry-after': '20' });
    await eventually('it is refused', async () => observed.length === 1);
    const reason = new Error('enough');
    controller.abort(reason);
    expect(await answer).toBe(reason);
  });

  test('if it is a GET whose connection broke, also in the middle of the body', async () => {
    const answer = transport.request(get);
    (await server.next()).cut();
    const stream = (await server.next()).stream();
    stream.write('[1,');
    await delay(50);
    stream.cut();
    (await server.next()).json(200, 'there');
    expect(await answer).toBe('there');
    expect(observed).toEqual(['GET <error>', 'GET <error>', 'GET 200']);
  });

  test('but a GET not without limit', async () => {
    const answer = outcome(transport.request(get));
    for (let tries = 0; tries < 4; tries += 1) (await server.next()).cut();
    expect(await answer).toMatchObject({ name: 'NoResponseError', code: 'UND_ERR_SOCKET', wasSent: true });
  });

  test.each(['POST', 'PUT', 'PATCH', 'DELETE'] as const)(
    'but never a %s that may have reached the server',
    async (method) => {
      const answer = outcome(transport.request({ ...post, method }));
      (await server.next()).cut();
      expect(await answer).toMatchObject({ name: 'NoResponseError', code: 'UND_ERR_SOCKET', wasSent: true });
      expect(observed).toEqual([`${method} <error>`]);
      expect(server.unclaimed).toBe(0);
    },
  );

  test('if no connection could be made, also a write', async () => {
    const { connection } = server;
    await server.close();
    const answer = outcome(transport.request(post));
    const error = await answer;
    expect(error).toBeInstanceOf(NoResponseError);
    expect(error).toMatchObject({ code: 'ECONNREFUSED', wasSent: false });
    expect((error as Error).message).toContain(`POST /x: not sent: connect ECONNREFUSED ${connection.server.host}`);
    expect(observed).toEqual(Array.from({ length: 4 }, () => 'POST <error>'));
  });
});

describe('after a 401', () => {
  /** Hands out one token after the other, each for as long as the server takes it. */
  function renewing(tokens: string[]): { transport: Transport; refused: unknown[] } {
    const refused: unknown[] = [];
    const renewed = new Transport(
      {
        ...server.connection,
        authentication: () => ({ authorization: tokens[0] ?? 'none left' }),
        invalidate: (headers) => {
          refused.push(headers);
          tokens.shift();
        },
      },
      { userAgent: 'test/1', observe },
    );
    return { transport: renewed, refused };
  }

  test.each(['request', 'stream'] as const)('a %s is retried with new credentials', async (send) => {
    const { transport: renewed, refused } = renewing(['old', 'new']);
    try {
      const answer = renewed[send](get);
      const first = await server.next();
      expect(first.headers.authorization).toBe('old');
      first.refuse(401, 'Unauthorized');
      const second = await server.next();
      expect(second.headers.authorization).toBe('new');
      second.json(200, 'there');
      await answer;
      expect(refused).toEqual([{ authorization: 'old' }]);
    } finally {
      await renewed.close();
    }
  });

  test('it is not retried with the same credentials', async () => {
    const { transport: renewed } = renewing(['old', 'old']);
    try {
      const refusal = expect(renewed.request(get)).rejects.toMatchObject({ code: 401 });
      (await server.next()).refuse(401, 'Unauthorized');
      await refusal;
      expect(observed).toEqual(['GET 401']);
    } finally {
      await renewed.close();
    }
  });

  test('it is retried only once', async () => {
    const { transport: renewed, refused } = renewing(['old', 'new', 'newer']);
    try {
      const refusal = expect(renewed.request(get)).rejects.toMatchObject({ code: 401 });
      (await server.next()).refuse(401, 'Unauthorized');
      (await server.next()).refuse(401, 'Unauthorized');
      await refusal;
      expect(refused).toHaveLength(1);
    } finally {
      await renewed.close();
    }
  });

  test('it fails at once if the credentials cannot be renewed', async () => {
    const refusal = expect(transport.request(get)).rejects.toMatchObject({ code: 401 });
    (await server.next()).refuse(401, 'Unauthorized');
    await refusal;
  });
});

test('limits the requests in flight to the number of connections', async () => {
  const narrow = new Transport(server.connection, { userAgent: 'test/1', connections: 1 });
  try {
    const [first, second] = [narrow.request({ ...get, path: '/1' }), narrow.request({ ...get, path: '/2' })];
    const request = await server.next({ path: '/1' });
    expect(server.unclaimed).toBe(0);
    request.json(200, 1);
    (await server.next({ path: '/2' })).json(200, 2);
    expect(await Promise.all([first, second])).toEqual([1, 2]);
  } finally {
    await narrow.close();
  }
});

test.each(['a signal', 'a gate'])(
  'a request that %s cancels before it is sent does not close a connection',
  async (canceller) => {
    const narrow = new Transport(server.connection, { userAgent: 'test/1', connections: 1 });
    const controller = new AbortController();
    const gate = {
      signal: new AbortController().signal,
      pass: () => {
        throw new GateClosedError('closed');
      },
    };
    try {
      const first = narrow.request(get);
      const request = await server.next();
      const how = canceller === 'a gate' ? { gate } : { signal: controller.signal };
      const cancelled = Array.from({ length: 20 }, () => narrow.request({ ...get, ...how, path: '/cancelled' }));
      const reasons = Promise.allSettled(cancelled);
      const last = narrow.request({ ...get, path: '/last' });
      // They have been authenticated then, and are queued.
      await setImmediate();
      controller.abort(new GateClosedError('closed'));
      request.json(200, 1);
      (await server.next({ path: '/last' })).json(200, 2);
      expect(await Promise.all([first, last])).toEqual([1, 2]);
      for (const outcome of await reasons)
        expect(outcome).toEqual({ status: 'rejected', reason: new GateClosedError('closed') });
      expect(server.connections).toBe(1);
      expect(server.unclaimed).toBe(0);
    } finally {
      await narrow.close();
    }
  },
);

describe('a stream', () => {
  test('has its own connections, so that it does not block requests', async () => {
    const narrow = new Transport(server.connection, { userAgent: 'test/1', connections: 1 });
    try {
      const opening = narrow.stream({ ...get, path: '/watch' });
      (await server.next({ path: '/watch' })).stream();
      const body = await opening;
      body.on('error', () => {});
      const answer = narrow.request(get);
      (await server.next({ path: '/x' })).json(200, 'there');
      expect(await answer).toBe('there');
    } finally {
      await narrow.close();
    }
  });

  test('does not end after the timeout of requests', async () => {
    const impatient = new Transport(server.connection, { userAgent: 'test/1', timeoutMs: 300 });
    try {
      const opening = impatient.stream({ ...get, path: '/watch' });
      const watch = (await server.next({ path: '/watch' })).stream();
      watch.write('first\n');
      const body = (await opening).setEncoding('utf8')[Symbol.asyncIterator]();
      expect(await body.next()).toMatchObject({ value: 'first\n' });
      // Requests that begin later have come to their end: the stream's own timer would have, too.
      for (const path of ['/x', '/y']) {
        const request = expect(impatient.request({ ...get, path })).rejects.toThrow('silent for too long');
        (await server.next({ path })).stream().write('{"half":');
        await request;
      }
      watch.write('second\n');
      expect(await body.next()).toMatchObject({ value: 'second\n' });
    } finally {
      await impatient.close();
    }
  });

  test('throws the Status if it is refused', async () => {
    const opening = transport.stream(get);
    const refused = expect(opening).rejects.toMatchObject({ name: 'ApiError', code: 410, reason: 'Expired' });
    (await server.next()).refuse(410, 'Expired');
    await refused;
  });
});
