import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { codeBlocks } from '../../../testkit/markdown.ts';

/** The namespace that the pages install the operator in. */
export const documentedNamespace = 'echoperator';

/** What a page under docs/ tells its reader to do. */
export class DocumentedSteps {
  readonly #blocks: ReturnType<typeof codeBlocks>;

  private constructor(blocks: ReturnType<typeof codeBlocks>) {
    this.#blocks = blocks;
  }

  static async of(page: string): Promise<DocumentedSteps> {
    return new DocumentedSteps(codeBlocks(await readFile(join(import.meta.dirname, '../../../docs', page), 'utf8')));
  }

  get sql(): string {
    return this.#blocks.flatMap(({ language, text }) => (language === 'sql' ? [text] : [])).join('');
  }

  /** The commands of its consoles that begin so, without what they print. @throws RangeError where there is none */
  commands(beginning: string): readonly string[] {
    const found = this.#blocks
      .filter(({ language }) => language === 'console')
      .flatMap(({ text }) => [...text.matchAll(/^\$ ((?:.*\\\n)*.*)$/gm)].map(([, command = '']) => command))
      .filter((command) => command.startsWith(beginning));
    if (found.length === 0) throw new RangeError(`no console has a command that begins with ${beginning}`);
    return found;
  }

  /** What it has Helm set: `--set`, and the values, for each. */
  get values(): readonly string[] {
    return this.commands('helm upgrade').flatMap((command) =>
      [...command.matchAll(/--set (\S+)/g)].flatMap(([, values = '']) => ['--set', values]),
    );
  }
}
