import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

const root = join(import.meta.dirname, '../../..');

/**
 * Type-checks modules, by file name, that import the project's packages by name.
 *
 * @param options compiler options besides those of this repository
 * @returns the errors; empty if there are none
 */
export async function typeErrors(files: Readonly<Record<string, string>>, options: object = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-docs-'));
  try {
    // Where the imports are found, as after `npm install`.
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
    const config = {
      extends: join(root, 'tsconfig.json'),
      compilerOptions: {
        noEmit: true,
        rootDir: '/',
        // A snippet need not use everything that its context declares.
        noUnusedLocals: false,
        noUnusedParameters: false,
        ...options,
      },
      include: ['*.ts'],
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
    await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const tsc = join(root, 'node_modules/.bin/tsc');
    const { all, exitCode } = await execa(tsc, ['--project', folder, '--pretty', 'false'], {
      all: true,
      reject: false,
    });
    return exitCode === 0 ? '' : all || `tsc ends with exit code ${exitCode}`;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
