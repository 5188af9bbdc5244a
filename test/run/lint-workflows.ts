/** Checks the workflows of GitHub with actionlint. Exits as actionlint does. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { ensureBinaries } from '../../tools/programs/index.ts';

const folder = join(import.meta.dirname, '../../.github/workflows');
const actionlint = (await ensureBinaries(['actionlint'])).get('actionlint') ?? '';
const files = readdirSync(folder).map((file) => join(folder, file));
// Without programs that a machine may lack.
const flags = ['-shellcheck=', '-pyflakes='];
const { exitCode } = await execa(actionlint, [...flags, ...files], { stdio: 'inherit', reject: false });
process.exitCode = exitCode ?? 1;
