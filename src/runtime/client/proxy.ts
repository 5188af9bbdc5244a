import { BlockList, isIP } from 'node:net';
import { ConnectionError } from './connection.ts';

/**
 * Returns the proxy for a server: `HTTPS_PROXY` (`HTTP_PROXY` for a server without TLS), or undefined if `NO_PROXY` or a
 * loopback address excludes the server. The variables may be in upper or lower case. This follows Go's
 * http.ProxyFromEnvironment, which client-go uses.
 *
 * @throws ConnectionError for an invalid proxy: see {@link parseProxy}.
 */
export function proxyFromEnvironment(server: URL, environment: NodeJS.ProcessEnv): URL | undefined {
  const name = server.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const value = environment[name] || environment[name.toLowerCase()];
  if (!value) return undefined;
  const exclusions = environment.NO_PROXY || environment.no_proxy || '';
  return isExcluded(server, exclusions) ? undefined : parseProxy(value, `the environment's ${name}`);
}

/**
 * Parses the URL of an HTTP proxy, which may contain a user and a password. The default scheme is `http://`.
 *
 * @param origin the place of the setting, for the error message.
 * @throws ConnectionError for an invalid URL, and for a scheme other than http and https (SOCKS is not supported).
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

function isExcluded(server: URL, exclusions: string): boolean {
  // URL.hostname has brackets around an IPv6 address.
  const host = server.hostname.replace(/^\[(.*)\]$/, '$1');
  if (host === 'localhost' || isIn('127.0.0.0/8', host) || isIn('::1/128', host)) return true;
  const port = server.port || (server.protocol === 'https:' ? '443' : '80');
  return exclusions
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .some((entry) => entry !== '' && matches(entry, host, port));
}

/** An entry is `*`, an IP address, a CIDR (`10.0.0.0/8`), or a domain with its subdomains, optionally with a port. */
function matches(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  if (entry.includes('/')) return isIn(entry, host);
  if (isIP(entry) !== 0) return entry === host;
  const [, name = '', entryPort] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(entry) ?? [];
  if (entryPort !== undefined && entryPort !== port) return false;
  // `example.com` matches the domain and its subdomains; `.example.com` and `*.example.com` match only subdomains.
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
