import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below those that the kernel gives to outgoing connections (from 32768 on with Linux): one of these could have the port when a
 * program that was stopped is to be started on it again. Above 10080, the last port that fetch refuses
 * (https://fetch.spec.whatwg.org/#port-blocking).
 */
const range = { from: 10_081, to: 29_999 } as const;

/**
 * Two TCP ports on 127.0.0.1 on which nobody listens. They are reserved for as long as this process lives: no other process
 * that asks here is given them, also while the program that they are for has yet to start or is stopped.
 */
export async function freePorts(): Promise<readonly [number, number]> {
  return [await freePort(), await freePort()];
}

async function freePort(): Promise<number> {
  for (;;) {
    const port = range.from + Math.floor(Math.random() * (range.to - range.from + 1));
    const reservation = await reserve(port);
    if (reservation === undefined) continue;
    if (await isFree(port)) return port;
    reservation.close();
  }
}

/** The UDP port of the same number is the lock: the kernel gives it to one process, and takes it back when that ends. */
async function reserve(port: number): Promise<Socket | undefined> {
  const socket = createSocket('udp4').unref();
  try {
    socket.bind({ port, address: '127.0.0.1', exclusive: true });
    await once(socket, 'listening');
    return socket;
  } catch {
    return undefined;
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
