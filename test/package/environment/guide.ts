import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeBlocks } from '../../../testkit/markdown.ts';

const pageOf = (name: string) => readFileSync(join(import.meta.dirname, '../../../docs', `${name}.md`), 'utf8');
const guide = pageOf('writing-an-operator');
const blocks = codeBlocks(guide);
const inLanguage = (wanted: string, of = blocks): readonly string[] =>
  of.filter(({ language }) => language === wanted).map(({ text }) => text);

const [
  greeter = '',
  secondChild = '',
  rolledOut = '',
  byName = '',
  references = '',
  pods = '',
  finalizer = '',
  names = '',
  election = '',
  guarded = '',
] = inLanguage('ts');

const [testing = '', perturbation = '', mutation = ''] = inLanguage('ts', codeBlocks(pageOf('testing')));

const [, validations = ''] = /`(validations: \[.*\}\])`/.exec(guide) ?? [];
/** The work of the greeter's reporter, replaced as the guide says, with the declarations that its text names. */
const withSecondChild = greeter
  .replace(/^ {4}return reporter\.reconcile[\s\S]*?^ {4}\}\);\n/m, () => secondChild)
  .replace('import { ConfigMap }', 'import { ConfigMap, Service }')
  .replace('owns: [ConfigMap]', 'owns: [ConfigMap, Service]')
  .replace('status: Type.Object({})', 'status: Type.Object({ address: Type.String() })')
  .replace(/^ {2}printerColumns/m, (line) => `  ${validations},\n${line}`)
  .replace(/^ {2}const configMaps .*\n/m, (line) => `${line}  const services = manager.informer(Service).store;\n`);

/** The reconcile with a finalizer replaces the greeter's, and has the reason that the text gives. */
const [, phoneBookDown = ''] = /`(PhoneBookDown: \{.*?\})`/.exec(guide) ?? [];
const withFinalizer = greeter
  .replace(/^ {2}const reconcile[\s\S]*?^ {2}\};\n/m, () => finalizer)
  .replace(/^ {2}NameTaken: .*\n/m, (line) => `${line}  ${phoneBookDown},\n`);
/** The key in the status, which the text declares. */
const [, namesOfStatus = ''] = /`(names: .*?)`/.exec(guide) ?? [];
const withNames = `${greeter.replace('status: Type.Object({})', () => `status: Type.Object({ ${namesOfStatus} })`)}
export async function noted(greeting: runtime.ObjectOf<typeof Greeting>, who: string, client: runtime.Client) {
${names}  return current;
}
`;
/** What replaces the greeter's last statement, to be one of several processes; its imports belong to the top. */
const [electionImports = '', ...electionStatements] = election.split('\n\n');
/** Port 0 is any free port: the machine may use the guide's. */
const electionSetup = electionStatements.join('\n\n').replace('port: 8080', 'port: 0');
const withElection = `${electionImports}\n${greeter.replace(/^ *await runtime\.runOperator.*$/m, () => electionSetup)}`;
/** The watch by name replaces `owns`. */
const withWatchByName = greeter.replace('owns: [ConfigMap],', () => byName.trim());
/** The watch of a ConfigMap that the spec names, which the text adds. */
const [, configMapRef = ''] = /`(configMapRef: .*?)`/.exec(guide) ?? [];
const withReferences = greeter
  .replace('spec: Type.Object({', () => `spec: Type.Object({ ${configMapRef},`)
  .replace(/^ {2}manager\.controller/m, (line) => `${references}\n${line}`)
  .replace('owns: [ConfigMap]', 'owns: [ConfigMap], watches: [references]');
const phoneBook = `declare const phoneBook: {
  add(uid: string, who: string, signal: AbortSignal): Promise<void>;
  remove(uid: string, signal: AbortSignal): Promise<void>;
};
`;
const withRolledOut = `import type { Deployment } from '@echoperator/runtime/kinds';
${rolledOut}`;
const withPods = `import * as runtime from '@echoperator/runtime';
import { Pod } from '@echoperator/runtime/kinds';
${pods}
export { pods };
`;
const withFence = `import type { Operator } from '@echoperator/runtime';
declare const { elector, signal, metadata }: Pick<Operator, 'elector'> & { signal: AbortSignal; metadata: { uid: string } };
${phoneBook}
${guarded}
`;

/** What docs/writing-an-operator.md and docs/testing.md show, as files: a part is where the reader would put it. */
export const guideFiles: Readonly<Record<string, string>> = {
  'greeter.ts': greeter,
  'greeter-with-second-child.ts': withSecondChild,
  'greeter-with-finalizer.ts': withFinalizer + phoneBook,
  'greeter-with-names.ts': withNames,
  'greeter-with-election.ts': withElection,
  'rolled-out.ts': withRolledOut,
  'greeter-by-name.ts': withWatchByName,
  'greeter-with-references.ts': withReferences,
  'pods.ts': withPods,
  'fence.ts': withFence,
  'testing.ts': testing,
  'perturb.ts': perturbation,
  'mutate.ts': mutation,
};

/** The guide's tsconfig.json. */
export const [guideTsconfig = ''] = inLanguage('json');

/** The objects that the guide deploys. */
export const [guideManifest = ''] = inLanguage('yaml');

/** The guide's Dockerfile, an instruction each. */
export const guideDockerfile: readonly { readonly instruction: string; readonly value: string }[] = inLanguage(
  'dockerfile',
)
  .flatMap((text) => text.trimEnd().split('\n'))
  .map((line) => ({ instruction: line.split(' ')[0] ?? '', value: line.slice(line.indexOf(' ') + 1) }));

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
