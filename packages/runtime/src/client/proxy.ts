import { BlockList, isIP } from 'node:net';
import { ConnectionError } from './connection.ts';

/**
 * Returns the proxy for a server: `HTTPS_PROXY` (`HTTP_PROXY` for a server without TLS), or undefined if `NO_PROXY` or
 * a loopback address excludes the server. The variables may be in upper or lower case. This follows Go's
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
  if (isIP(entry) !== 0) return isSameAddress(entry, host);
  const [, name = '', entryPort] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(entry) ?? [];
  if (entryPort !== undefined && entryPort !== port) return false;
  if (isIP(name) !== 0) return isSameAddress(name, host);
  // `example.com` matches the domain and its subdomains; `.example.com` and `*.example.com` match only subdomains.
  const domain = name.replace(/^\*?\./, '');
  return host.endsWith(`.${domain}`) || (domain === name && host === domain);
}

/** By value: an IPv6 address has many spellings, and `::ffff:10.0.0.1` is 10.0.0.1. */
function isSameAddress(one: string, other: string): boolean {
  const [family, otherFamily] = [familyOf(one), familyOf(other)];
  if (family === undefined || otherFamily === undefined) return false;
  const list = new BlockList();
  list.addAddress(one, family);
  return list.check(other, otherFamily);
}

function isIn(range: string, host: string): boolean {
  const [network = '', bits = ''] = range.split('/');
  const [family, hostFamily] = [familyOf(network), familyOf(host)];
  if (family === undefined || hostFamily === undefined || !/^\d{1,3}$/.test(bits)) return false;
  // Of the IPv6 networks only those below ::ffff:0:0/96 have IPv4 addresses.
  const [minBits, maxBits] = family === 'ipv4' ? [0, 32] : [hostFamily === 'ipv4' ? 96 : 0, 128];
  if (Number(bits) < minBits || Number(bits) > maxBits) return false;
  const list = new BlockList();
  list.addSubnet(network, Number(bits), family);
  return list.check(host, hostFamily);
}

function familyOf(address: string): 'ipv4' | 'ipv6' | undefined {
  const family = isIP(address);
  return family === 0 ? undefined : family === 4 ? 'ipv4' : 'ipv6';
}
