import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';
import { compileRuntime, entries, packageName } from '../release/npm-package.ts';

/** The public API of the runtime: each entry's names, then each name's declaration. */
export const apiReportFile = 'src/runtime/runtime.api.md';

/** The report cannot be generated, or a public signature uses a type that no entry exports. */
export class ApiReportError extends Error {
  override readonly name = 'ApiReportError';
}

/**
 * The content of {@link apiReportFile}, from the compiled declarations.
 *
 * API Extractor reports on one module. So that each declaration appears once, although entries use each other's types, it
 * reads a module that exports all entries.
 *
 * @param root the repository.
 * @throws ApiReportError for a type that a public signature uses and that no entry exports.
 */
export async function apiReport(root: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-api-'));
  try {
    await compileRuntime(folder);
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
    await writeFile(
      join(folder, 'package.json'),
      JSON.stringify({ name: packageName, version: '0.0.0', type: 'module' }),
    );
    const all = Object.values(entries).map((module) => `export * from './${module}.js';\n`);
    await writeFile(join(folder, 'all.d.ts'), all.join(''));
    const names = await Promise.all(
      Object.entries(entries).map(([entry, module]) => namesSection(folder, entry, module)),
    );
    const declarations = await declarationsOf(folder);
    return `# The public API of ${packageName}\n\nGenerated from src/runtime by \`make generate\`. Review every change of this file: users see it.\n\n${names.join('')}${declarations}`;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The names that an entry exports. An entry has only `export … from`; a module that it exports whole has only constants with a type of the same name. */
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
  return `## ${join(packageName, entry)}: ${names.length} names\n\n${sorted.map((name) => `- ${name}\n`).join('')}\n`;
}

async function declarationsOf(folder: string): Promise<string> {
  const entryPoint = join(folder, 'all.d.ts');
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
        reportFileName: basename(apiReportFile),
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
  const report = await readFile(join(folder, basename(apiReportFile)), 'utf8');
  const code = report.slice(report.indexOf('```ts'));
  return `## Declarations\n\n${withExportedNames(code).replaceAll(/^\/\/ @public\n|^ *\/\/ \(undocumented\)\n/gm, '')}`;
}

/** API Extractor renames an export that shares its name with a global, such as `Event`: `Event_2`, with `export { Event_2 as Event }`. */
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
