import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { certificateReader } from '../../../../packages/runtime/src/webhook-server/certificate-reader.ts';

const repository = join(import.meta.dirname, '../../../..');
const issuer = join(repository, 'packages/runtime/src/webhook-server/x509-issuer.ts');
const template = join(repository, 'packages/create-operator/template/_package.json');

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'echoperator-x509-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

// esbuild splits a package of CommonJS into a file that has only a default export.
test('creates certificates in a bundle of the build command of created operators', async () => {
  const main = `import { loadX509Issuer } from '${issuer}';
    const { createAuthority, issue } = await loadX509Issuer();
    const validity = { notBeforeMs: Date.now() - 60_000, notAfterMs: Date.now() + 60_000 };
    const authority = await createAuthority({ ...validity, names: ['test'] });
    const serving = await issue({ ...validity, names: ['hooks.default.svc'] }, authority);
    console.log(JSON.stringify([authority, serving]));`;
  await writeFile(join(folder, 'main.ts'), main);
  const { scripts } = JSON.parse(await readFile(template, 'utf8'));
  const build = scripts.build.replace('src/main.ts', join(folder, 'main.ts')).replace('dist', join(folder, 'dist'));
  await execa(build, { shell: true, preferLocal: true, localDir: repository, cwd: repository });
  const { stdout } = await execa(process.execPath, [join(folder, 'dist/main.mjs')]);
  const [authority, serving] = JSON.parse(stdout);
  const [ca] = certificateReader.read(authority.certificate);
  const [leaf] = certificateReader.read(serving.certificate);
  expect(leaf?.names).toEqual(['hooks.default.svc']);
  expect(certificateReader.isIssuedBy(leaf!, ca!)).toBe(true);
});
