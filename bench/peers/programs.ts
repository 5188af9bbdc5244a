/**
 * The peers' programs, each pinned by the files in its folder here and built once into the user's cache. Go's are built
 * as the tools are; a Rust toolchain (rustup.rs) is needed for kube-rs.
 */
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { build } from 'esbuild';
import { ExecaError, execa } from 'execa';
import { cacheFolder } from '../../tools/cache-folder.ts';
import { ExclusiveLock } from '../../tools/exclusive-lock.ts';
import { ensureBinariesIn } from '../../tools/programs/index.ts';

/** A peer's program can't be built. The message says why. */
export class PeerError extends Error {
  override readonly name = 'PeerError';
}

const dieWithParent = join(import.meta.dirname, '../../tools/die-with-parent.ts');

/** @returns the path of the controller-runtime peer's program. @throws as ensureBinaries does */
export async function controllerRuntimePeer(signal: AbortSignal): Promise<string> {
  const name = 'controller-runtime';
  const workshop = {
    binaries: [{ name, group: name, package: '.', seconds: 120 }],
    folder: import.meta.dirname,
    environment: process.env,
  };
  const path = (await ensureBinariesIn(workshop, [name], { signal })).get(name);
  if (path === undefined) throw new PeerError(`no program came of bench/peers/${name}`);
  return path;
}

/** @returns the path of the kube-rs peer's program. @throws PeerError without cargo, or if it does not compile */
export async function kubeRsPeer(signal: AbortSignal): Promise<string> {
  const source = join(import.meta.dirname, 'kube-rs');
  const cache = cacheFolder();
  const folder = join(cache, 'bin', `kube-rs-${await keyOfSources(source, await rustVersion(signal))}`);
  const path = join(folder, 'kube-rs-peer');
  await mkdir(folder, { recursive: true });
  while (!(await isThere(path))) {
    signal.throwIfAborted();
    using lock = ExclusiveLock.tryAcquire(join(cache, 'cargo.lock'), 'building the kube-rs peer');
    if (lock === undefined) await delay(200, undefined, { signal });
    else await buildKubeRs(source, join(cache, 'cargo'), path, signal);
  }
  return path;
}

async function buildKubeRs(source: string, target: string, path: string, signal: AbortSignal): Promise<void> {
  console.error('Building the kube-rs peer: about 3 min on two cores');
  // die-with-parent.ts kills the compilers too when this process ends, however it ends.
  const { exitCode } = await execa(process.execPath, [dieWithParent, 'cargo', 'build', '--release', '--locked'], {
    cwd: source,
    env: { CARGO_TARGET_DIR: target },
    stdin: 'pipe',
    stdout: 'inherit',
    stderr: 'inherit',
    reject: false,
    cancelSignal: signal,
  });
  signal.throwIfAborted();
  if (exitCode !== 0) throw new PeerError('cargo could not build bench/peers/kube-rs: see above');
  // Moved at the end: what is at the path is whole.
  await copyFile(join(target, 'release', 'kube-rs-peer'), `${path}.partial`);
  await rename(`${path}.partial`, path);
}

async function rustVersion(signal: AbortSignal): Promise<string> {
  try {
    return (await execa('rustc', ['--version', '--verbose'], { cancelSignal: signal })).stdout;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ExecaError && error.code === 'ENOENT') {
      throw new PeerError(
        'Rust is needed for the kube-rs peer, and there is no `rustc` on PATH: see https://rustup.rs',
        {
          cause: error,
        },
      );
    }
    throw error;
  }
}

/** Another compiler, dependency or source is another key. */
async function keyOfSources(folder: string, toolchain: string): Promise<string> {
  const hash = createHash('sha256').update(toolchain);
  const files = (await readdir(folder, { recursive: true })).filter((file) => /\.rs$|^Cargo\.(toml|lock)$/.test(file));
  for (const file of files.sort()) hash.update(`\0${file}\0`).update(await readFile(join(folder, file)));
  return hash.digest('hex').slice(0, 16);
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** Bundles the client-node peer, so that no compiler runs in its process; returns the path of its program. */
export async function clientNodePeer(folder: string): Promise<string> {
  const path = join(folder, 'client-node.mjs');
  await build({
    entryPoints: [join(import.meta.dirname, 'client-node/main.ts')],
    outfile: path,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node26',
    logLevel: 'warning',
    // CommonJS packages call require() for Node's own modules, and an ES module has none.
    banner: {
      js: `import{createRequire as requireFrom}from'node:module';const require=requireFrom(import.meta.url);`,
    },
  });
  return path;
}
