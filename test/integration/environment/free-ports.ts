import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** Two ports on which nobody listens now. */
export async function freePorts(): Promise<readonly [number, number]> {
  const servers = [createServer(), createServer()] as const;
  // Both at once, or the second might get the port that the first has given back.
  await Promise.all(servers.map((server) => once(server.listen(0, '127.0.0.1'), 'listening')));
  const [one, other] = servers.map((server) => (server.address() as AddressInfo).port) as [number, number];
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return [one, other];
}
