import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  ApiError,
  GateClosedError,
  NoAnswerError,
  type RequestObserver,
} from '../../../../src/runtime/client/index.ts';
import { Transport } from '../../../../src/runtime/client/transport.ts';
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
  test('carries what it is made of, and returns the JSON of the answer', async () => {
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

  test('without a body says nothing of its type', async () => {
    const answer = transport.request(get);
    const request = await server.next();
    expect(request.headers).not.toHaveProperty('content-type');
    request.json(200, {});
    await answer;
  });

  test('authenticates anew each time', async () => {
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

  test('fails with what the authentication throws, and is counted', async () => {
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

  test.each(['/prefix', '/prefix/'])('goes to a server behind the path %s', async (path) => {
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

describe('a refusal', () => {
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

  test('is the Status that the server sent', async () => {
    const details = { causes: [{ reason: 'FieldValueInvalid', field: 'spec.message', message: 'too long' }] };
    const error = await refused((exchange) => exchange.refuse(422, 'Invalid', { details, message: 'spec.message' }));
    expect(error).toMatchObject({ code: 422, reason: 'Invalid', request: 'GET /x', status: { details } });
    expect(error.message).toBe('GET /x: 422 Invalid: spec.message; spec.message: too long');
    expect(observed).toEqual(['GET 422']);
  });

  test('by a proxy in between has its text as the message', async () => {
    const html = '<html><body>Bad Gateway</body></html>';
    const error = await refused((exchange) => exchange.text(502, 'text/html', html));
    expect(error).toMatchObject({ code: 502, reason: 'Unknown', status: { code: 502, message: html } });
  });

  test('has a message that fits a line of the log however long the text is', async () => {
    const error = await refused((exchange) => exchange.text(500, 'text/plain', 'x'.repeat(5000)));
    expect(error.status.message).toHaveLength(1000);
  });

  test.each([
    ['nothing', ''],
    ['JSON that is no Status', '{"error":"no"}'],
    ['JSON that is no object', 'null'],
  ])('of %s is one too', async (_, text) => {
    const error = await refused((exchange) => exchange.text(503, 'application/json', text));
    expect(error).toMatchObject({ code: 503, status: { message: text } });
  });
});

describe('an answer that is not the API server’s', () => {
  test.each([
    ['a page', 200, '<html>Please log in</html>'],
    ['nothing', 200, ''],
    ['a redirection', 302, ''],
  ])('%s is an error that names the request', async (_, code, text) => {
    const answer = transport.request(get);
    (await server.next()).text(code, 'text/html', text);
    await expect(answer).rejects.toThrow(new RegExp(`GET /x: ${code} `));
  });
});

describe('an end of waiting', () => {
  const silence = { name: 'NoAnswerError', message: 'GET /x: no answer: the server was silent for too long' };

  test('comes when the server is silent for as long as the request allows', async () => {
    await expect(transport.request({ ...get, timeoutMs: 20 })).rejects.toMatchObject(silence);
    expect(observed).toEqual(['GET <error>']);
  });

  test('comes when the server is silent for as long as the transport allows', async () => {
    const impatient = new Transport(server.connection, { userAgent: 'test/1', timeoutMs: 20 });
    try {
      await expect(impatient.request(get)).rejects.toMatchObject(silence);
    } finally {
      await impatient.close();
    }
  });

  test('comes in the middle of the body too', async () => {
    const refused = expect(transport.request({ ...get, timeoutMs: 500 })).rejects.toMatchObject(silence);
    (await server.next()).stream().write('{"half":');
    await refused;
  });

  test('does not come to a long answer that goes on', async () => {
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

  test('comes by the signal while the credentials are still awaited, as from a plugin that hangs', async () => {
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

  test('comes by the signal, with its reason, and the server sees the connection go', async () => {
    const controller = new AbortController();
    const answer = transport.request({ ...get, signal: controller.signal });
    const request = await server.next();
    const reason = new Error('enough');
    controller.abort(reason);
    await expect(answer).rejects.toBe(reason);
    await request.closed;
  });

  test('comes at once by a signal aborted before', async () => {
    const reason = new Error('enough');
    await expect(transport.request({ ...get, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(server.unclaimed).toBe(0);
  });

  test('comes when the transport is closed', async () => {
    const answer = transport.request(get);
    const refused = expect(answer).rejects.toThrow();
    await server.next();
    await transport.close();
    await refused;
  });
});

describe('a request is sent again', () => {
  const outcome = (answer: Promise<unknown>): Promise<unknown> => answer.catch((error: unknown) => error);
  const post = { method: 'POST', path: '/x', body: {} } as const;
  const soon = { 'retry-after': '0' };
  const busy = { kind: 'Status', code: 503, reason: 'ServiceUnavailable', message: 'starting' };

  test.each([
    ['POST', 429, 'Too many requests'],
    ['POST', 503, JSON.stringify(busy)],
    ['GET', 503, 'from a proxy'],
  ] as const)('%s: after %i with a Retry-After: %s', async (method, code, text) => {
    const answer = transport.request({ ...post, method });
    (await server.next()).text(code, 'text/plain', text, soon);
    (await server.next({ method })).json(200, 'there');
    expect(await answer).toBe('there');
    expect(observed).toEqual([`${method} ${code}`, `${method} 200`]);
  });

  test('but not a write after a 503 of a proxy, which may have passed it on', async () => {
    const answer = outcome(transport.request(post));
    (await server.next()).text(503, 'text/html', '<html>', soon);
    expect(await answer).toMatchObject({ code: 503, retryAfterSeconds: 0 });
  });

  test.each([429, 500, 503, 504])('but not after %i without a Retry-After', async (code) => {
    const answer = outcome(transport.request(get));
    (await server.next()).refuse(code, 'Whatever');
    expect(await answer).toMatchObject({ code, retryAfterSeconds: undefined });
  });

  test('but not after a Retry-After that is too long to wait for: who asked is told', async () => {
    const answer = outcome(transport.request(get));
    (await server.next()).text(429, 'text/plain', 'no', { 'retry-after': '3600' });
    expect(await answer).toMatchObject({ code: 429, retryAfterSeconds: 3600 });
  });

  test('but not for ever', async () => {
    const answer = outcome(transport.request(get));
    for (let tries = 0; tries < 10; tries += 1) (await server.next()).text(429, 'text/plain', `no ${tries}`, soon);
    expect(await answer).toMatchObject({ code: 429, status: { message: 'no 9' } });
    expect(observed).toHaveLength(10);
  });

  test('unless the signal ends the wait', async () => {
    const controller = new AbortController();
    const answer = outcome(transport.request({ ...get, signal: controller.signal }));
    (await server.next()).text(429, 'text/plain', 'no', { 'retry-after': '20' });
    await eventually('it is refused', async () => observed.length === 1);
    const reason = new Error('enough');
    controller.abort(reason);
    expect(await answer).toBe(reason);
  });

  test('when it is a GET whose connection broke, also in the middle of the body', async () => {
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

  test('but a GET not for ever', async () => {
    const answer = outcome(transport.request(get));
    for (let tries = 0; tries < 4; tries += 1) (await server.next()).cut();
    expect(await answer).toMatchObject({ name: 'NoAnswerError', code: 'UND_ERR_SOCKET', sent: true });
  });

  test.each(['POST', 'PUT', 'PATCH', 'DELETE'] as const)('but never a %s of which nobody knows', async (method) => {
    const answer = outcome(transport.request({ ...post, method }));
    (await server.next()).cut();
    expect(await answer).toMatchObject({ name: 'NoAnswerError', code: 'UND_ERR_SOCKET', sent: true });
    expect(observed).toEqual([`${method} <error>`]);
    expect(server.unclaimed).toBe(0);
  });

  test('when no connection came about: also a write, which surely was not done', async () => {
    const { connection } = server;
    await server.close();
    const answer = outcome(transport.request(post));
    const error = await answer;
    expect(error).toBeInstanceOf(NoAnswerError);
    expect(error).toMatchObject({ code: 'ECONNREFUSED', sent: false });
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
        unauthorized: (headers) => {
          refused.push(headers);
          tokens.shift();
        },
      },
      { userAgent: 'test/1', observe },
    );
    return { transport: renewed, refused };
  }

  test.each(['request', 'stream'] as const)('a %s is sent again with new credentials', async (send) => {
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

  test('it is not sent again where the credentials are still the same', async () => {
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

  test('it is sent again once only', async () => {
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

  test('a connection that can renew nothing fails at once', async () => {
    const refusal = expect(transport.request(get)).rejects.toMatchObject({ code: 401 });
    (await server.next()).refuse(401, 'Unauthorized');
    await refusal;
  });
});

test('no more requests than connections are under way; the others wait their turn', async () => {
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
  'a request that %s cancels before it is sent costs no connection',
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
  test('has connections of its own: it keeps no request waiting', async () => {
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

  test('is not ended by a silence that would end a request', async () => {
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

  test('that is refused throws the Status', async () => {
    const opening = transport.stream(get);
    const refused = expect(opening).rejects.toMatchObject({ name: 'ApiError', code: 410, reason: 'Expired' });
    (await server.next()).refuse(410, 'Expired');
    await refused;
  });
});
