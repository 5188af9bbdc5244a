import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeBlocks } from '../../../testkit/markdown.ts';

const blocks = codeBlocks(readFileSync(join(import.meta.dirname, '../../../docs/writing-an-operator.md'), 'utf8'));
const inLanguage = (wanted: string): readonly string[] =>
  blocks.filter(({ language }) => language === wanted).map(({ text }) => text);

const [greeter = '', finalizer = '', election = '', testing = ''] = inLanguage('ts');

/** The reconcile with a finalizer replaces the greeter's. */
const withFinalizer = greeter.replace(/^ {2}const reconcile[\s\S]*?^ {2}\};\n/m, () => finalizer);
/** What replaces the greeter's last statement, to be one of several processes; its imports belong to the top. */
const [electionImports = '', ...electionStatements] = election.split('\n\n');
const withElection = `${electionImports}\n${greeter.replace(/^ *await runtime\.runOperator.*$/m, () => electionStatements.join('\n\n'))}`;
const phoneBook =
  'declare const phoneBook: Record<"add" | "remove", (who: string, signal: AbortSignal) => Promise<void>>;\n';

/** What docs/writing-an-operator.md shows, as files: a part of one stands where the reader would put it. */
export const guideFiles: Readonly<Record<string, string>> = {
  'greeter.ts': greeter,
  'greeter-with-finalizer.ts': withFinalizer + phoneBook,
  'greeter-with-election.ts': withElection,
  'testing.ts': testing,
};

/** A command of the guide, with what it reads from a here-document, and what the guide says that it prints. */
export interface GuideCommand {
  readonly command: string;
  readonly output: string;
}

/** The commands of the guide's consoles, in their order. */
export function guideCommands(): readonly GuideCommand[] {
  return inLanguage('console').flatMap((text) =>
    [...text.matchAll(/^\$ ((?:.*<<'(\w+)'\n[\s\S]*?^\2$)|.*)\n((?:(?!\$ ).*\n)*)/gm)].map(
      ([, command = '', , output = '']) => ({ command, output }),
    ),
  );
}
