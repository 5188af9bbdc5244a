import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Agent, createServer, request as httpsRequest, type Server } from 'node:https';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import { type Connection, kubeconfigConnection } from '@echoperator/runtime/client';
import { parse, stringify } from 'yaml';
import { certificate, certificateKey } from './certificate.ts';

/** A line of a recording: a request to an API server, and its response. */
export interface RecordedRequest {
  readonly method: string;
  /** The path with its query. */
  readonly path: string;
  readonly contentType: string;
  readonly accept: string;
  readonly userAgent: string;
  /** Whether it was sent as somebody other than an administrator. */
  readonly isLimited: boolean;
  readonly body: string;
  readonly code: number;
  /** The events of a watch, one per line. */
  readonly response: string;
}

const own = ['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'host', 'accept-encoding'];

const forwarded = (headers: IncomingMessage['headers']): OutgoingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !own.includes(name)));

/** Requests JSON, because controllers prefer protobuf, which is not text. */
const withoutProtobuf = (accept: string): string =>
  accept
    .split(',')
    .map((type) => type.replace('application/vnd.kubernetes.protobuf', 'application/json'))
    .join(',');

/**
 * Records all requests to an API server in a file of JSON lines, in the order in which the server processed them.
 * Therefore it forwards one request at a time. Only watches run in parallel; it records a watch when the watch ends.
 */
export class RecordingProxy implements AsyncDisposable {
  /** A kubeconfig that leads to the proxy, with the same credentials. */
  readonly kubeconfig: string;
  readonly #server: Server;
  readonly #upstream: Connection;
  readonly #file: WriteStream;
  readonly #agents: { readonly administrator: Agent; readonly others: Agent };
  #last: Promise<void> = Promise.resolve();

  private constructor(server: Server, upstream: Connection, kubeconfig: string, file: WriteStream) {
    const { cert: _, key: __, ...unidentified } = upstream.tls;
    this.kubeconfig = kubeconfig;
    this.#server = server;
    this.#upstream = upstream;
    this.#file = file;
    this.#agents = {
      administrator: new Agent({ ...upstream.tls, keepAlive: true }),
      others: new Agent({ ...unidentified, keepAlive: true }),
    };
    server.on('request', (request, response) => void this.#receive(request, response));
  }

  /**
   * @param folder for the new kubeconfig; the caller removes it
   * @param file of the recording
   */
  static async start(kubeconfig: string, folder: string, file: string): Promise<RecordingProxy> {
    const upstream = await kubeconfigConnection(kubeconfig);
    const server = createServer({
      cert: certificate,
      key: certificateKey,
      // Read only to learn which users have one.
      requestCert: true,
      rejectUnauthorized: false,
    });
    server.keepAliveTimeout = 600_000;
    server.requestTimeout = 0;
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error(`listening on ${address}, not on a port`);
    const config = parse(await readFile(kubeconfig, 'utf8'));
    for (const { cluster } of config.clusters) {
      cluster.server = `https://127.0.0.1:${address.port}`;
      cluster['certificate-authority-data'] = Buffer.from(certificate).toString('base64');
    }
    const path = join(await mkdtemp(join(folder, 'recorded-')), 'kubeconfig');
    await writeFile(path, stringify(config), { mode: 0o600 });
    return new RecordingProxy(server, upstream, path, createWriteStream(file, { flags: 'a' }));
  }

  /** Closes every connection, and the file. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    for (const agent of Object.values(this.#agents)) agent.destroy();
    this.#file.end();
    await once(this.#file, 'close');
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => {});
    try {
      const body = await buffer(request);
      const exchange = (): Promise<void> => this.#exchange(request, body.toString(), response);
      if (/[?&]watch=(?:true|1)/.test(request.url ?? '')) await exchange();
      else {
        this.#last = this.#last.then(exchange, exchange);
        await this.#last;
      }
    } catch {
      response.destroy();
    }
  }

  async #exchange(request: IncomingMessage, body: string, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/', headers } = request;
    const isWatch = /[?&]watch=(?:true|1)/.test(url);
    // The client has given up, and the API server has not seen the request.
    if (response.destroyed) return;
    const accept = withoutProtobuf(headers.accept ?? '');
    const { subject } = (request.socket as TLSSocket).getPeerCertificate();
    const isAdministrator = headers.authorization === undefined && subject !== undefined;
    const upstream = httpsRequest(new URL(url, this.#upstream.server), {
      method,
      headers: {
        ...forwarded(headers),
        ...(accept !== '' && { accept }),
        ...(body !== '' && { 'content-length': Buffer.byteLength(body) }),
      },
      agent: isAdministrator ? this.#agents.administrator : this.#agents.others,
    });
    if (isWatch) response.on('close', () => upstream.destroy());
    upstream.end(body);
    const [incoming] = (await once(upstream, 'response')) as [IncomingMessage];
    response.writeHead(incoming.statusCode ?? 502, forwarded(incoming.headers));
    response.flushHeaders();
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      if (!response.destroyed) response.write(chunk);
    });
    incoming.on('error', () => {});
    await new Promise<void>((resolve) => incoming.once('close', resolve));
    response.end();
    if (this.#file.writableEnded) return;
    const record: RecordedRequest = {
      method,
      path: url,
      contentType: headers['content-type'] ?? '',
      accept,
      userAgent: headers['user-agent'] ?? '',
      isLimited: !isAdministrator || Object.keys(headers).some((name) => name.startsWith('impersonate-')),
      body,
      code: incoming.statusCode ?? 502,
      response: Buffer.concat(chunks).toString(),
    };
    this.#file.write(`${JSON.stringify(record)}\n`);
  }
}
