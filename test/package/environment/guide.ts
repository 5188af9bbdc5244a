import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeBlocks } from '../../../testkit/markdown.ts';

const repository = join(import.meta.dirname, '../../..');
const pageOf = (name: string) => readFileSync(join(repository, 'docs', `${name}.md`), 'utf8');
const guide = pageOf('writing-an-operator');
const blocks = codeBlocks(guide);
const inLanguage = (wanted: string, of = blocks): readonly string[] =>
  of.filter(({ language }) => language === wanted).map(({ text }) => text);

const [
  greeter = '',
  secondChild = '',
  rolledOut = '',
  references = '',
  optional = '',
  pods = '',
  finalizer = '',
  metrics = '',
  election = '',
] = inLanguage('ts');
const [byHand = ''] = inLanguage('ts', codeBlocks(pageOf('lower-layer')));
const [plan = ''] = inLanguage('ts', codeBlocks(pageOf('plan')));
const [simulation = '', exploration = '', testing = '', perturbation = '', external = '', mutation = ''] = inLanguage(
  'ts',
  codeBlocks(pageOf('testing')),
);

/** What stands in backticks in the text, and begins so. */
const inText = (begin: string): string =>
  new RegExp(`\`(${begin}[\\s\\S]*?)\`(?:\\.|,|:|$)`, 'm').exec(guide)?.[1] ?? '';

/** The greeter with another `owns` and `reconcile`, as the guide says, with what it imports from the root. */
const withMembers = (members: string, imports: readonly string[] = []): string =>
  greeter
    .replace(/^ {2}reconcile: [\s\S]*?^ {2}\},\n/m, () => members)
    .replace(/^ {2}owns: .*\n/m, (line) => (members.includes('  owns:') ? '' : line))
    .replace('import {', `import { ${imports.map((name) => `${name}, `).join('')}`);
const withReason = (text: string, reason: string): string =>
  text.replace(/^ {4}Written: .*\n/m, (line) => `${line}    ${inText(reason)},\n`);

const withSecondChild = withMembers(secondChild, ['child'])
  .replace('import { ConfigMap }', 'import { ConfigMap, Service }')
  .replace('status: Type.Object({})', 'status: Type.Object({ address: Type.String() })')
  .replace(/^ {2}printerColumns/m, (line) => `  ${inText('validations: ')},\n${line}`);
const withReferences = withReason(withMembers(references), 'SourceMissing: ').replace(
  'spec: Type.Object({',
  () => `spec: Type.Object({ ${inText('from: ')},`,
);
const withOptional = `import { builtInKind } from '@echoperator/runtime';
import { cache } from '@echoperator/runtime/controller';
${greeter.slice(0, greeter.indexOf('const clusterRole'))}
${optional}`;
const withPods = `import { keyOf } from '@echoperator/runtime';
import type { Delta } from '@echoperator/runtime/cache';
import { cache } from '@echoperator/runtime/controller';
import { Pod } from '@echoperator/runtime/kinds';
${pods}
export const names = [pods.kind.kind, ...caches.map(({ kind }) => kind.kind)];
`;
const withFinalizer = `${withReason(withMembers(finalizer, ['cleanedUp']), 'PhoneBookDown: ')}
declare class PhoneBookError extends Error {}
declare const phoneBook: {
  add(uid: string, who: string, signal: AbortSignal): Promise<void>;
  remove(uid: string, signal: AbortSignal): Promise<void>;
};
`;
const withMetrics = `import { Counter } from 'prom-client';
${withMembers(metrics)}`;
/** Port 0 is any free port: the machine may use the guide's. */
const withElection = greeter.replace(/await runOperator.*$/m, () => election.trim().replace('port: 8080', 'port: 0'));
const withRolledOut = `import type { Deployment } from '@echoperator/runtime/kinds';
${rolledOut}`;

/**
 * What docs/writing-an-operator.md, docs/lower-layer.md, docs/plan.md and docs/testing.md show, as files: a part is where the reader
 * would put it.
 */
export const guideFiles: Readonly<Record<string, string>> = {
  'greeter.ts': greeter,
  'greeter-with-second-child.ts': withSecondChild,
  'rolled-out.ts': withRolledOut,
  'greeter-with-references.ts': withReferences,
  'greeter-with-optional-kind.ts': withOptional,
  'pods.ts': withPods,
  'greeter-with-finalizer.ts': withFinalizer,
  'greeter-with-metrics.ts': withMetrics,
  'greeter-with-election.ts': withElection,
  'greeter-by-hand.ts': byHand,
  'plan.ts': plan,
  'simulation.ts': simulation,
  'exploration.ts': exploration,
  'testing.ts': testing,
  'perturb.ts': perturbation,
  'perturb-external.ts': external,
  'mutate.ts': mutation,
};

/** The example of a whole operator. */
export const websiteFile = readFileSync(join(repository, 'examples/website/website.ts'), 'utf8');

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
