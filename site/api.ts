/** Writes the reference of the packages' API from their docstrings, one page for each import. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Application, Converter, ReflectionKind, type TypeDocOptions } from 'typedoc';
import { load as markdown } from 'typedoc-plugin-markdown';
import { manifestOf, publishedPackages } from '../tools/release/npm-package.ts';
import { repository, repositoryAddress } from './folders.ts';

/** An import of a package, and the page that lists its names. */
export interface ApiPage {
  /** What names are imported from, such as `@echoperator/runtime/client`. */
  readonly specifier: string;
  /** The path of the page, relative to the folder of the API. */
  readonly path: string;
}

interface Entry {
  readonly specifier: string;
  /** The path of the source file in the repository. */
  readonly source: string;
  /** The name of the page, without a folder. */
  readonly name: string;
}

/** Returns the packages' entries, except those for the project's own packages. */
async function entriesOfPackages(): Promise<readonly Entry[]> {
  const entries = await Promise.all(
    publishedPackages.map(async (folder) => {
      const { name, exports } = await manifestOf(folder);
      return Object.entries(exports).map(([entry, source]) => {
        const specifier = join(name, entry);
        const page = specifier.replace('@echoperator/', '').replaceAll('/', '-');
        return { specifier, source: join('packages', folder, source), name: page };
      });
    }),
  );
  return entries.flat().filter(({ specifier }) => !specifier.endsWith('/internal'));
}

/** @throws Error if TypeDoc cannot read the sources */
export async function writeApi(folder: string): Promise<readonly ApiPage[]> {
  const entries = await entriesOfPackages();
  const options: TypeDocOptions & Readonly<Record<string, unknown>> = {
    entryPoints: entries.map(({ source }) => join(repository, source)),
    tsconfig: join(repository, 'packages/tsconfig.json'),
    basePath: repository,
    // TypeScript 7, which the project is checked with, has no API that TypeDoc could use. TypeScript 6 reads the same
    // sources, but infers less in a few places.
    skipErrorChecking: true,
    // The links do not depend on the commit, so that the same sources make the same site. Without git, paths are
    // relative to the folder that all entries share.
    disableGit: true,
    sourceLinkTemplate: `${repositoryAddress}/blob/main/packages/{path}#L{line}`,
    gitRevision: 'main',
    readme: 'none',
    plugin: [markdown],
    router: 'module',
    outputs: [{ name: 'markdown', path: folder }],
    entryFileName: 'index',
    hidePageHeader: true,
    hideBreadcrumbs: true,
    excludePrivate: true,
    excludeInternal: true,
    parametersFormat: 'table',
    interfacePropertiesFormat: 'list',
    validation: false,
    logLevel: 'Error',
  };
  const app = await Application.bootstrapWithPlugins(options);
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const module of project.getChildrenByKind(ReflectionKind.Module)) {
      const entry = entries.find(({ source }) =>
        module.sources?.some(({ fullFileName }) => fullFileName.endsWith(source)),
      );
      if (entry) module.name = entry.name;
    }
  });
  const project = await app.convert();
  if (project === undefined) throw new Error('TypeDoc cannot read the packages');
  await app.generateOutputs(project);
  if (app.logger.hasErrors()) throw new Error('TypeDoc reported errors');
  await setTitle(join(folder, 'index.md'), 'API');
  return Promise.all(
    entries.map(async ({ specifier, name }) => {
      // An entry with namespaces is a folder.
      const path = existsSync(join(folder, `${name}.md`)) ? `${name}.md` : `${name}/index.md`;
      await setTitle(join(folder, path), specifier);
      return { specifier, path };
    }),
  );
}

async function setTitle(file: string, title: string): Promise<void> {
  await writeFile(file, (await readFile(file, 'utf8')).replace(/^# .*$/m, `# ${title}`));
}
