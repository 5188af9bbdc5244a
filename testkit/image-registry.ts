import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { ensureBinaries } from '../tools/programs/index.ts';
import { dieWithParent } from './die-with-parent.ts';
import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';

/** An OCI registry without TLS that keeps everything in memory. */
export interface ImageRegistry extends AsyncDisposable {
  /** Host and port. */
  readonly address: string;
}

export interface ImageRegistryOptions {
  /** The folder for the registry's configuration. */
  readonly folder: string;
  /** An address of this machine. Default: 127.0.0.1. */
  readonly host?: string;
  /** Whether every request needs {@link registryLogin}. Default: false. */
  readonly requiresLogin?: boolean;
}

export const registryLogin = { user: 'mirror', password: 'pull' } as const;

/** The login with the bcrypt hash of the password: `htpasswd -nbB mirror pull`. */
const passwordFile = `${registryLogin.user}:$2y$05$abcdefghijklmnopqrstuumX/UcYPuC1he88jUne9Jeh/nE4LKq6K\n`;

export async function startImageRegistry({
  folder,
  host = '127.0.0.1',
  requiresLogin = false,
}: ImageRegistryOptions): Promise<ImageRegistry> {
  const [port] = await freePorts();
  const address = `${host}:${port}`;
  const passwords = join(folder, 'registry.passwords');
  await writeFile(passwords, passwordFile);
  const configuration = join(folder, 'registry.yaml');
  const settings = {
    version: 0.1,
    log: { level: 'warn' },
    storage: { inmemory: {} },
    http: { addr: address },
    ...(requiresLogin && { auth: { htpasswd: { realm: 'registry', path: passwords } } }),
  };
  await writeFile(configuration, stringify(settings));
  const program = (await ensureBinaries(['registry'])).get('registry') ?? '';
  // Without this variable the registry would send traces to a collector on this machine.
  const env = { OTEL_TRACES_EXPORTER: 'none' };
  const child = execa(...dieWithParent(program, [configuration]), { all: true, env, reject: false });
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    await child;
  };
  const early = child.then(({ all }) => {
    throw new Error(`the registry ended before it was ready: ${all}`);
  });
  try {
    const expected = requiresLogin ? 401 : 200;
    const isReady = () => fetch(`http://${address}/v2/`).then(({ status }) => status === expected);
    await Promise.race([early, eventually('the registry answers', isReady)]);
  } catch (error) {
    await stop();
    throw error;
  }
  early.catch(() => {});
  return { address, [Symbol.asyncDispose]: stop };
}
