/** A container is ready when something listens on its port: all that can be known of any image. */
export const readyWhenListening = (port: number) => ({ tcpSocket: { port }, periodSeconds: 5 }) as const;
