import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ApiError, type RequestObserver, Transport } from '../../../../src/runtime/client/index.ts';
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
    expect(error.message).toBe('GET /x: 422 Invalid: spec.message');
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
  test('comes after the time out of the request', async () => {
    const answer = transport.request({ ...get, timeoutMs: 20 });
    await expect(answer).rejects.toThrow(expect.objectContaining({ name: 'TimeoutError' }) as never);
    expect(observed).toEqual(['GET <error>']);
  });

  test('comes after the time out of a request that could be aborted too', async () => {
    const { signal } = new AbortController();
    const answer = transport.request({ ...get, timeoutMs: 20, signal });
    await expect(answer).rejects.toThrow(expect.objectContaining({ name: 'TimeoutError' }) as never);
  });

  test('comes after the time out of the transport', async () => {
    const impatient = new Transport(server.connection, { userAgent: 'test/1', timeoutMs: 20 });
    try {
      await expect(impatient.request(get)).rejects.toThrow(expect.objectContaining({ name: 'TimeoutError' }) as never);
    } finally {
      await impatient.close();
    }
  });

  test('comes in the middle of the body too', async () => {
    const answer = transport.request({ ...get, timeoutMs: 500 });
    (await server.next()).stream().write('{"half":');
    await expect(answer).rejects.toThrow(expect.objectContaining({ name: 'TimeoutError' }) as never);
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

  test('comes when the server cuts the connection', async () => {
    const answer = transport.request(get);
    (await server.next()).cut();
    await expect(answer).rejects.toThrow(expect.objectContaining({ code: 'UND_ERR_SOCKET' }) as never);
    expect(observed).toEqual(['GET <error>']);
  });

  test('comes when the transport is closed', async () => {
    const answer = transport.request(get);
    const refused = expect(answer).rejects.toThrow();
    await server.next();
    await transport.close();
    await refused;
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

  test('that is refused throws the Status', async () => {
    const opening = transport.stream(get);
    const refused = expect(opening).rejects.toMatchObject({ name: 'ApiError', code: 410, reason: 'Expired' });
    (await server.next()).refuse(410, 'Expired');
    await refused;
  });
});
