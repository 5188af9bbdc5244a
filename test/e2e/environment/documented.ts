import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { controllerNames, kindEntries } from '../../../src/kinds.ts';
import { codeBlocks } from '../../../testkit/markdown.ts';
import { pageOf } from '../../../tools/generate/file-names.ts';

/** The namespace in which the docs install the operator. */
export const documentedNamespace = 'echoperator';

const commandsIn = (text: string): readonly string[] =>
  [...text.matchAll(/^\$ ((?:.*\\\n)*.*)$/gm)].map(([, command = '']) => command);

/** The steps that a page in docs/ describes. */
export class DocumentedSteps {
  readonly #blocks: ReturnType<typeof codeBlocks>;

  private constructor(blocks: ReturnType<typeof codeBlocks>) {
    this.#blocks = blocks;
  }

  /** @param heading limits the steps to this section. @throws RangeError if the page has no such section */
  static async of(page: string, heading?: string): Promise<DocumentedSteps> {
    const text = await readFile(join(import.meta.dirname, '../../../docs', page), 'utf8');
    if (heading === undefined) return new DocumentedSteps(codeBlocks(text));
    const section = text.split(/^## /m).find((part) => part.startsWith(`${heading}\n`));
    if (section === undefined) throw new RangeError(`${page} has no section ${heading}`);
    return new DocumentedSteps(codeBlocks(section));
  }

  get sql(): string {
    return this.#textIn('sql');
  }

  get yaml(): string {
    return this.#textIn('yaml');
  }

  /** The console commands, without their output. */
  get allCommands(): readonly string[] {
    return this.#blocks.filter(({ language }) => language === 'console').flatMap(({ text }) => commandsIn(text));
  }

  /** The console blocks, each as a script: its commands, without their output. */
  get scripts(): readonly string[] {
    return this.#blocks.filter(({ language }) => language === 'console').map(({ text }) => commandsIn(text).join('\n'));
  }

  /** Returns the console commands that start with a text, without their output. @throws RangeError if there is none */
  commands(beginning: string): readonly string[] {
    const found = this.allCommands.filter((command) => command.startsWith(beginning));
    if (found.length === 0) throw new RangeError(`no console command starts with ${beginning}`);
    return found;
  }

  #textIn(wanted: string): string {
    return this.#blocks.flatMap(({ language, text }) => (language === wanted ? [text] : [])).join('');
  }

  /** Returns the `--set` arguments of its Helm commands. */
  get values(): readonly string[] {
    return this.commands('helm upgrade').flatMap((command) =>
      [...command.matchAll(/--set (\S+)/g)].flatMap(([, values = '']) => ['--set', values]),
    );
  }
}

/** The values with which the pages of the kinds that are off by default switch them on. */
export async function valuesOfDisabledKinds(): Promise<readonly string[]> {
  const names = controllerNames.filter((name) => !kindEntries[name].runsByDefault);
  const pages = await Promise.all(names.map((name) => DocumentedSteps.of(basename(pageOf(name)))));
  return pages.flatMap(({ values }) => values);
}
