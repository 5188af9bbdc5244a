import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below those that the kernel gives to outgoing connections (from 32768 on with Linux): one of these could have the port when a
 * program that was stopped is to be started on it again.
 */
const range = { from: 10_000, to: 29_999 } as const;

/** Two ports on which nobody listens now. */
export async function freePorts(): Promise<readonly [number, number]> {
  const one = await freePort();
  let other = await freePort();
  while (other === one) other = await freePort();
  return [one, other];
}

async function freePort(): Promise<number> {
  for (;;) {
    const port = range.from + Math.floor(Math.random() * (range.to - range.from + 1));
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  await once(server.close(), 'close');
  return true;
}
