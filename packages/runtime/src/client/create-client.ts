import type { Client } from './client.ts';
import type { Connection } from './connection.ts';
import type { RequestObserver } from './exchange.ts';
import type { Gate } from './gate.ts';
import { HttpClient } from './http-client.ts';
import { Transport } from './transport.ts';

/** Options of {@link createClient}. */
export interface CreateClientOptions {
  /** The API server records the fields that this client sets under this name. */
  readonly fieldManager: string;
  /** The `User-Agent` of the requests: `greeter/1.2.3`. Default: the field manager. */
  readonly userAgent?: string;
  /** How many requests may be in flight at once; others wait. Watches do not count. Default 32. */
  readonly connections?: number;
  /**
   * How long the API server may be silent during a request that is not a watch, in milliseconds. Default 30,000.
   */
  readonly timeoutMs?: number;
  /** Checks whether a request may start, for example a leader's fence. Default: none. */
  readonly gate?: Gate;
  /** Called for each attempt of a request, for metrics. */
  readonly observe?: RequestObserver;
}

/** A client that owns its connections. */
export interface ConnectedClient extends Client {
  /** Closes the connections. Requests in flight fail. */
  close(): Promise<void>;
}

/**
 * Creates a client for a program that is not an operator, such as a command or a test. Sends no request.
 *
 * An operator has a client already: `ReconcileContext.client` in a reconcile, `Operator.client` elsewhere.
 *
 * @example
 * const connection = await connect({ kubeconfigPath: undefined, environment: process.env });
 * const client = createClient(connection, { fieldManager: 'greeter' });
 * const pods = await client.list(Pod, { namespace: 'default' });
 * await client.close();
 */
export function createClient(connection: Connection, options: CreateClientOptions): ConnectedClient {
  const { fieldManager, gate, userAgent = fieldManager, ...rest } = options;
  const transport = new Transport(connection, { ...rest, userAgent });
  return Object.assign(new HttpClient(transport, fieldManager, { gate }), { close: () => transport.close() });
}
