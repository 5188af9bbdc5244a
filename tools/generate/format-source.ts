import { join } from 'node:path';
import { execa } from 'execa';

/**
 * Formats generated TypeScript as `npm run format` does.
 *
 * @param file the path that the source gets in the repository
 */
export async function formatSource(file: string, source: string): Promise<string> {
  const { stdout } = await execa('biome', ['format', `--stdin-file-path=${file}`], {
    cwd: join(import.meta.dirname, '../..'),
    preferLocal: true,
    input: source,
    stripFinalNewline: false,
  });
  return stdout;
}
