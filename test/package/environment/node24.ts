import { cp, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { cacheFolder } from '../../../tools/cache-folder.ts';

const pinned = join(import.meta.dirname, '../node24');

/**
 * The folder with the program `node` of version 24 that test/package/node24 pins, installed into the user's cache by
 * the first who asks. For a system that no Node is pinned for, that of the machine must do.
 */
export async function ensureNode24(): Promise<string> {
  const lock = JSON.parse(await readFile(join(pinned, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<
      Record<string, { readonly version?: string; readonly os?: string; readonly cpu?: string }>
    >;
  };
  const [, fitting] =
    Object.entries(lock.packages).find(([, { os, cpu }]) => os === process.platform && cpu === process.arch) ?? [];
  if (fitting?.version === undefined) throw new Error(`no Node 24 is pinned for ${process.platform} ${process.arch}`);
  const folder = join(cacheFolder(), `node-${fitting.version}`);
  const programs = join(folder, 'node_modules/.bin');
  if (await isNode(join(programs, 'node'), fitting.version)) return programs;

  await mkdir(cacheFolder(), { recursive: true });
  const unfinished = await mkdtemp(`${folder}-`);
  try {
    await cp(pinned, unfinished, { recursive: true });
    await execa('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: unfinished });
    await rm(folder, { recursive: true, force: true });
    await rename(unfinished, folder);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // Another run was faster.
    if (!(await isNode(join(programs, 'node'), fitting.version))) throw error;
  }
  return programs;
}

async function isNode(program: string, version: string): Promise<boolean> {
  const { stdout } = await execa(program, ['--version'], { reject: false });
  return stdout === `v${version}`;
}
