import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * The range is below the ports that the kernel uses for outgoing connections (Linux: from 32768), because such a
 * connection could take the port of a stopped program before the program starts again. The range is above 10080, the
 * last port that fetch refuses (https://fetch.spec.whatwg.org/#port-blocking).
 */
const range = { from: 10_081, to: 29_999 } as const;

/**
 * Returns two TCP ports on 127.0.0.1 on which no process listens. They are reserved until this process ends: this
 * function returns them to no other process, even while no program uses them.
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

/** Reserves a port by binding the UDP port of the same number. The kernel releases it when this process ends. */
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
