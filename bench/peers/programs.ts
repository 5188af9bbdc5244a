/**
 * The peers' programs. The files in each peer's folder pin its dependencies. Programs are built once into the user's
 * cache. kube-rs needs a Rust toolchain (rustup.rs).
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { ExecaError, execa } from 'execa';
import { cacheFolder } from '../../tools/cache-folder.ts';
import { runOnce } from '../../tools/exclusive-lock.ts';
import { ensureBinariesIn } from '../../tools/programs/index.ts';

/** A peer's program cannot be built. The message says why. */
export class PeerError extends Error {
  override readonly name = 'PeerError';
}

const dieWithParent = join(import.meta.dirname, '../../tools/die-with-parent.ts');

/** Builds the controller-runtime peer if needed. @returns the path of its program. @throws like ensureBinaries */
export async function controllerRuntimePeer(signal: AbortSignal): Promise<string> {
  const name = 'controller-runtime';
  const programs = {
    binaries: [{ name, group: name, package: '.', seconds: 120 }],
    folder: import.meta.dirname,
    environment: process.env,
  };
  const path = (await ensureBinariesIn(programs, [name], { signal })).get(name);
  if (path === undefined) throw new PeerError(`the build of bench/peers/${name} returned no program`);
  return path;
}

/**
 * Builds the kube-rs peer if needed.
 *
 * @returns the path of its program.
 * @throws PeerError if Rust is missing or a build fails
 */
export async function kubeRsPeer(signal: AbortSignal): Promise<string> {
  const source = join(import.meta.dirname, 'kube-rs');
  const cache = cacheFolder();
  const folder = join(cache, 'bin', `kube-rs-${await keyOfSources(source, await rustVersion(signal))}`);
  const path = join(folder, 'kube-rs-peer');
  await mkdir(folder, { recursive: true });
  const lockFile = join(cache, 'cargo.lock');
  const isDone = async () => existsSync(path);
  await runOnce({ lockFile, purpose: 'building the kube-rs peer', isDone, signal }, () =>
    buildKubeRs(source, join(cache, 'cargo'), path, signal),
  );
  return path;
}

async function buildKubeRs(source: string, target: string, path: string, signal: AbortSignal): Promise<void> {
  console.error('Building the kube-rs peer: about 3 min on two cores');
  // If this process ends, even by SIGKILL, die-with-parent.ts kills the compilers.
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
  if (exitCode !== 0) throw new PeerError('cargo cannot build bench/peers/kube-rs: see its output above');
  // The rename is atomic, so a file at the path is complete.
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

/** Returns a key that changes with the compiler, the dependencies and the sources. */
async function keyOfSources(folder: string, toolchain: string): Promise<string> {
  const hash = createHash('sha256').update(toolchain);
  const files = (await readdir(folder, { recursive: true })).filter((file) => /\.rs$|^Cargo\.(toml|lock)$/.test(file));
  for (const file of files.sort()) hash.update(`\0${file}\0`).update(await readFile(join(folder, file)));
  return hash.digest('hex').slice(0, 16);
}

/** Bundles the client-node peer, so that its process does not compile TypeScript. @returns the path of its program */
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
    // CommonJS packages call require() for Node's modules, which ES modules do not define.
    banner: {
      js: `import{createRequire as requireFrom}from'node:module';const require=requireFrom(import.meta.url);`,
    },
  });
  return path;
}
