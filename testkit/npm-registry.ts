import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { dieWithParent } from './die-with-parent.ts';
import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';

const verdaccio = join(import.meta.dirname, '../node_modules/verdaccio/bin/verdaccio');

/** A registry for npm packages on loopback: what is published here, and every other package from the user's registry. */
export interface NpmRegistry extends AsyncDisposable {
  readonly url: string;
  /** Environment variables with which npm uses this registry, and may publish. */
  readonly environment: Readonly<Record<string, string>>;
  /** Whether it accepts new versions of a package. Default: true. */
  setAccepts(name: string, accepts: boolean): Promise<void>;
}

/**
 * Starts the registry.
 *
 * @param options.folder for its configuration and packages, and npm's cache; the caller removes it
 * @param options.scope only packages of this scope can be published, and none of them comes from the user's registry
 */
export async function startNpmRegistry({
  folder,
  scope,
}: {
  readonly folder: string;
  readonly scope: string;
}): Promise<NpmRegistry> {
  await mkdir(folder, { recursive: true });
  const [port] = await freePorts();
  const url = `http://127.0.0.1:${port}/`;
  const configuration = join(folder, 'verdaccio.yaml');
  const refused = new Set<string>();
  // The user's registry, which may be a mirror, is known only at run time.
  const { stdout: uplink } = await execa('npm', ['config', 'get', 'registry']);

  const start = async () => {
    const own = { access: '$all', publish: '$authenticated' };
    const settings = {
      storage: join(folder, 'storage'),
      auth: { htpasswd: { file: join(folder, 'htpasswd'), max_users: 10 } },
      uplinks: { user: { url: uplink.trim(), timeout: '60s', max_fails: 10 } },
      packages: {
        ...Object.fromEntries([...refused].map((name) => [name, { ...own, publish: 'nobody' }])),
        [`${scope}/*`]: own,
        '**': { access: '$all', proxy: 'user' },
      },
      web: { enable: false },
      log: { type: 'stdout', format: 'pretty', level: 'warn' },
      max_body_size: '100mb',
    };
    await writeFile(configuration, stringify(settings));
    const args = [verdaccio, '--config', configuration, '--listen', `127.0.0.1:${port}`];
    const child = execa(...dieWithParent(process.execPath, args), { all: true, reject: false });
    const early = child.then(({ all }) => {
      throw new Error(`the npm registry ended before it was ready: ${all}`);
    });
    try {
      const isReady = () => fetch(`${url}-/ping`).then(({ ok }) => ok);
      await Promise.race([early, eventually('the npm registry answers', isReady)]);
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
    early.catch(() => {});
    // Not the subprocess itself, which is a promise of its end.
    return async (): Promise<void> => {
      child.kill('SIGTERM');
      await child;
    };
  };
  let stop = await start();
  const token = await tokenOf(url);
  const npmrc = join(folder, 'npmrc');
  await writeFile(npmrc, `//127.0.0.1:${port}/:_authToken=${token}\n`);
  return {
    url,
    environment: {
      npm_config_registry: url,
      npm_config_userconfig: npmrc,
      npm_config_cache: join(folder, 'npm-cache'),
      npm_config_audit: 'false',
      npm_config_update_notifier: 'false',
    },
    setAccepts: async (name, accepts) => {
      if (accepts) refused.delete(name);
      else refused.add(name);
      await stop();
      stop = await start();
    },
    [Symbol.asyncDispose]: () => stop(),
  };
}

/** Adds a user. @returns the user's token */
async function tokenOf(registry: string): Promise<string> {
  const response = await fetch(`${registry}-/user/org.couchdb.user:publisher`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'publisher', password: 'only-on-loopback' }),
  });
  const { token } = (await response.json()) as { readonly token?: string };
  if (token === undefined) throw new Error(`the npm registry gave no token: ${response.status}`);
  return token;
}
