import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';
import { linkPackages } from '../link-packages.ts';
import {
  buildPackages,
  entriesOf,
  manifestOf,
  type PublishedPackage,
  publishedPackages,
} from '../release/npm-package.ts';

/** The public API of a package: each entry's names, then each name's declaration. */
const reportOf = (name: PublishedPackage) => `packages/${name}/${name}.api.md`;
export const apiReportFiles = publishedPackages.map(reportOf);

/** The report cannot be generated, or a public signature uses a type that no entry exports. */
class ApiReportError extends Error {
  override readonly name = 'ApiReportError';
}

/**
 * The contents of {@link apiReportFiles}, from the compiled declarations.
 *
 * @throws ApiReportError for a type that a public signature uses and that no entry exports.
 */
export async function apiReports(): Promise<readonly (readonly [file: string, content: string])[]> {
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-api-'));
  try {
    await buildPackages(join(folder, 'packages'));
    await linkPackages(folder);
    const reports: (readonly [string, string])[] = [];
    for (const name of publishedPackages)
      reports.push([reportOf(name), await apiReport(join(folder, 'packages', name), name)]);
    return reports;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * API Extractor reports on one module. So that each declaration appears once, although entries use each other's types,
 * it reads a module that exports all entries.
 *
 * @param folder the built package.
 */
async function apiReport(folder: string, name: PublishedPackage): Promise<string> {
  const manifest = await manifestOf(name);
  const entries = [...entriesOf(manifest)].filter(([entry]) => !entry.endsWith('/internal'));
  const compiled = join(folder, 'dist');
  const all = entries.map(([, module]) => `export * from './${module}.js';\n`);
  await writeFile(join(compiled, 'all.d.ts'), all.join(''));
  const names = await Promise.all(entries.map(([entry, module]) => namesSection(compiled, entry, module)));
  const declarations = await declarationsOf(folder, reportOf(name));
  const source = `Generated from packages/${name}/src by \`make generate\`.`;
  const note = `${source} Review every change of this file: users see it.`;
  return `# The public API of ${manifest.name}\n\n${note}\n\n${names.join('')}${declarations}`;
}

/**
 * The names that an entry exports. An entry has only `export … from`; a module that it exports whole has only constants
 * with a type of the same name.
 */
async function namesSection(folder: string, entry: string, module: string): Promise<string> {
  const text = await readFile(join(folder, `${module}.d.ts`), 'utf8');
  const named = [...text.matchAll(/^export (?:type )?\{([^}]*)\} from/gm)].flatMap(([, list = '']) => list.split(','));
  const namespaces = [...text.matchAll(/^export \* as (\w+) from/gm)].map(([, name = '']) => name);
  const whole = [...text.matchAll(/^export \* from '(.+)\.ts';$/gm)].map(([, from = '']) =>
    readFile(join(folder, module, '..', `${from}.d.ts`), 'utf8'),
  );
  const constants = (await Promise.all(whole)).flatMap((each) =>
    [...each.matchAll(/^export declare const (\w+)/gm)].map(([, name = '']) => name),
  );
  const names = [...named.map((name) => name.trim().replace(/^type /, '')), ...namespaces, ...constants].filter(
    (name) => name !== '',
  );
  const sorted = names.sort((a, b) => a.localeCompare(b, 'en'));
  return `## ${entry}: ${names.length} names\n\n${sorted.map((name) => `- ${name}\n`).join('')}\n`;
}

async function declarationsOf(folder: string, file: string): Promise<string> {
  const entryPoint = join(folder, 'dist/all.d.ts');
  const problems: string[] = [];
  const config = ExtractorConfig.prepare({
    configObjectFullPath: undefined,
    packageJsonFullPath: join(folder, 'package.json'),
    configObject: {
      projectFolder: folder,
      mainEntryPointFilePath: entryPoint,
      compiler: { overrideTsconfig: { compilerOptions, files: [entryPoint] } },
      apiReport: {
        enabled: true,
        reportFileName: basename(file),
        reportFolder: folder,
        reportTempFolder: join(folder, 'temporary'),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: 'lf',
    },
  });
  const { errorCount } = Extractor.invoke(config, {
    localBuild: true,
    messageCallback: (message) => {
      message.handled = true;
      const isProblem = message.category === 'Compiler' || message.messageId === 'ae-forgotten-export';
      if (isProblem) problems.push(message.formatMessageWithLocation(folder));
    },
  });
  if (problems.length > 0 || errorCount > 0) throw new ApiReportError(problems.join('\n'));
  const report = await readFile(join(folder, basename(file)), 'utf8');
  const code = report.slice(report.indexOf('```ts'));
  return `## Declarations\n\n${withExportedNames(code).replaceAll(/^\/\/ @public\n|^ *\/\/ \(undocumented\)\n/gm, '')}`;
}

/**
 * API Extractor renames an export that shares its name with a global, such as `Event`: `Event_2`, with `export {
 * Event_2 as Event }`.
 */
function withExportedNames(code: string): string {
  const renamed = [...code.matchAll(/^export \{ (\w+) as (\w+) \}\n/gm)];
  return renamed.reduce((text, [line, internal = '', exported = '']) => {
    const declaration = new RegExp(`^(?=(?:const|type|class|interface|function) ${internal}\\b)`, 'gm');
    return text
      .replace(line, '')
      .replaceAll(declaration, 'export ')
      .replaceAll(new RegExp(`\\b${internal}\\b`, 'g'), exported);
  }, code);
}

/** The repository's compiler options that API Extractor's own TypeScript supports. */
const compilerOptions = {
  target: 'es2024',
  lib: ['es2024', 'esnext.disposable'],
  module: 'nodenext',
  moduleResolution: 'nodenext',
  types: ['node'],
  strict: true,
  skipLibCheck: true,
} as const;
