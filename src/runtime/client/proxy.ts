import { BlockList, isIP } from 'node:net';
import { ConnectionError } from './connection.ts';

/**
 * The proxy that the environment names for a server: `HTTPS_PROXY` (`HTTP_PROXY` for a server without TLS), unless
 * `NO_PROXY` or the server's own loopback address excepts it; each in capitals or not. As Go's
 * http.ProxyFromEnvironment, which client-go uses.
 *
 * @throws ConnectionError for a proxy that {@link parseProxy} refuses.
 */
export function environmentProxy(server: URL, environment: NodeJS.ProcessEnv): URL | undefined {
  const name = server.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const value = environment[name] || environment[name.toLowerCase()];
  if (!value) return undefined;
  const exceptions = environment.NO_PROXY || environment.no_proxy || '';
  return isExcepted(server, exceptions) ? undefined : parseProxy(value, `the environment's ${name}`);
}

/**
 * A proxy's URL: `http://` or `https://`, with a user and a password where it asks for them. Without a scheme it is
 * `http://`.
 *
 * @param origin where it was found, for the error.
 * @throws ConnectionError for other schemes, SOCKS among them, and for what is no URL.
 */
export function parseProxy(value: string, origin: string): URL {
  const proxy = URL.parse(value.includes('://') ? value : `http://${value}`);
  if (proxy === null) throw new ConnectionError(`${origin} names the proxy "${value}", which is not a URL`);
  if (proxy.protocol !== 'http:' && proxy.protocol !== 'https:') {
    const scheme = proxy.protocol.slice(0, -1);
    throw new ConnectionError(`${origin} names a ${scheme} proxy, ${proxy.host}: only http and https are supported`);
  }
  return proxy;
}

function isExcepted(server: URL, exceptions: string): boolean {
  // IPv6 addresses stand in brackets.
  const host = server.hostname.replace(/^\[(.*)\]$/, '$1');
  if (host === 'localhost' || isIn('127.0.0.0/8', host) || isIn('::1/128', host)) return true;
  const port = server.port || (server.protocol === 'https:' ? '443' : '80');
  return exceptions
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .some((entry) => entry !== '' && matches(entry, host, port));
}

/** `*`, an address, a range of them (`10.0.0.0/8`), or a domain and all below it; with a port, of that port alone. */
function matches(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  if (entry.includes('/')) return isIn(entry, host);
  if (isIP(entry) !== 0) return entry === host;
  const [, name = '', entryPort] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(entry) ?? [];
  if (entryPort !== undefined && entryPort !== port) return false;
  // `.example.com` and `*.example.com` are what is below it alone, `example.com` is itself too.
  const domain = name.replace(/^\*?\./, '');
  return host.endsWith(`.${domain}`) || (domain === name && host === domain);
}

function isIn(range: string, host: string): boolean {
  const family = isIP(host);
  const [network = '', bits = ''] = range.split('/');
  const maxBits = family === 4 ? 32 : 128;
  if (family === 0 || isIP(network) !== family || !/^\d{1,3}$/.test(bits) || Number(bits) > maxBits) return false;
  const list = new BlockList();
  const type = family === 4 ? 'ipv4' : 'ipv6';
  list.addSubnet(network, Number(bits), type);
  return list.check(host, type);
}
