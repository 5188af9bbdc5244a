import type { Socket } from 'node:net';

/**
 * Ends a connection with a TCP reset, as if its other end had been switched off.
 *
 * A socket that is being shut down can't be reset: libuv refuses (EINVAL of uv_tcp_close_reset), and Node would keep the
 * handle, and so the process, for ever. Such a socket is closed without a reset.
 */
export function resetConnection(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
