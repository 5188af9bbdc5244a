/**
 * Builds the site.
 *
 *     node site/build.ts
 *
 * VitePress reads copies of the pages, in a folder with the paths of the repository, so that links between pages work
 * both on GitHub and on the site.
 */
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { build } from 'vitepress';
import { codeBlocks } from '../testkit/markdown.ts';
import { writeApi } from './api.ts';
import { htmlFolder, pagesFolder, repository } from './folders.ts';
import { landingPages, repositoryPages } from './navigation.ts';

/** What the pages show besides text. */
const pictures = ['docs/images', 'docs/benchmark'];

await rm(join(import.meta.dirname, 'dist'), { recursive: true, force: true });
for (const path of [...repositoryPages, ...pictures]) {
  const copy = join(pagesFolder, path);
  await mkdir(dirname(copy), { recursive: true });
  await cp(join(repository, path), copy, { recursive: true });
}
for (const name of landingPages) {
  const text = await readFile(join(import.meta.dirname, 'landing', name), 'utf8');
  // These pages are two folders higher than their sources.
  await writeFile(join(pagesFolder, name), (await withCode(text)).replaceAll('](../../', '](./'));
}
const api = await writeApi(join(pagesFolder, 'api'));
await writeFile(join(pagesFolder, 'api.json'), JSON.stringify(api));
await build(import.meta.dirname);
process.stdout.write(
  `The site is in ${relative(process.cwd(), htmlFolder)}. To open it: npm run --workspace site open\n`,
);

/**
 * Replaces each line `<!-- code: FILE LANGUAGE N -->` by the N-th block of code in this language of a page. So the
 * landing pages show only code that the tests of that page run.
 *
 * @throws Error if the page has no such block
 */
async function withCode(markdown: string): Promise<string> {
  const lines = await Promise.all(
    markdown.split('\n').map(async (line) => {
      const [, file = '', language, number] = /^<!-- code: (\S+) (\w+) (\d+) -->$/.exec(line) ?? [];
      if (language === undefined) return line;
      const blocks = codeBlocks(await readFile(join(repository, file), 'utf8'));
      const block = blocks.filter((one) => one.language === language)[Number(number) - 1];
      if (block === undefined) throw new Error(`${file} has no ${number} blocks of ${language}`);
      return `\`\`\`${language}\n${block.text}\`\`\``;
    }),
  );
  return lines.join('\n');
}
