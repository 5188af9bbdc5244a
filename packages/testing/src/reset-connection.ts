import type { Socket } from 'node:net';

/**
 * Closes a connection with a TCP reset.
 *
 * A socket that is shutting down is closed without a reset: libuv refuses the reset (EINVAL of uv_tcp_close_reset), and
 * Node would keep the handle and the process alive.
 */
export function resetConnection(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
