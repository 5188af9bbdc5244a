import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { controllerNames } from '../../src/kinds.ts';
import { exampleOf, pageOf } from './file-names.ts';

/**
 * Returns the example of each kind: the first YAML of its page, whose commands apply the file.
 *
 * @throws Error if a page has no YAML.
 */
export async function exampleFiles(root: string): Promise<readonly (readonly [path: string, content: string])[]> {
  return Promise.all(
    controllerNames.map(async (name) => {
      const page = pageOf(name);
      const [, example] = /^```yaml\n(.*?)^```$/ms.exec(await readFile(join(root, page), 'utf8')) ?? [];
      if (example === undefined) throw new Error(`${page} lacks an example in YAML`);
      return [exampleOf(name), `# Generated from ${page} by \`make generate\`: change it there.\n${example}`] as const;
    }),
  );
}
