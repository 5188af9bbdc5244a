import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheFolder } from '../../../tools/cache-folder.ts';
import { ensureBinaries } from '../../../tools/programs/index.ts';
import { runSteps, standardDisplay } from '../../../tools/progress.ts';
import { publishedPackages } from '../../../tools/release/npm-package.ts';
import { createOperator, installOperator, installWebhooks } from './created-operator.ts';
import { guideCommands } from './guide.ts';
import { ensureNode24 } from './node24.ts';
import { EmptyProject, packTarballs, type Tarballs } from './project.ts';

const repository = join(import.meta.dirname, '../../..');

/** What the set-up has made for the tests, so that they need no network. */
export interface Prepared {
  /** Of the run's own; the tear-down removes it. */
  readonly folder: string;
  readonly tarballs: Tarballs;
  /** The folder with the program `node` of version 24. */
  readonly node24: string;
  /** npm's cache with every package that {@link installCommands} name. */
  readonly npmCache: string;
}

/** @throws Error if the set-up has not run */
export function prepared(): Prepared {
  const { PACKAGE_PREPARED } = process.env;
  if (PACKAGE_PREPARED === undefined) throw new Error('nothing is prepared: the global set-up has not run');
  return JSON.parse(PACKAGE_PREPARED);
}

/** What the tests have npm install: as the guide says, and what type-checking its files needs beside that. */
export async function installCommands(tarballs: Tarballs): Promise<{ readonly guide: string; readonly types: string }> {
  const [, install] = guideCommands();
  return {
    guide: await pinned(install?.command ?? '', tarballs),
    // The last for declarations of @kubernetes/client-node that import it, where the package itself does not.
    types: await pinned(
      'npm install @types/node echoperator-testing.tgz echoperator-cli.tgz @types/ws@8.18.2',
      tarballs,
    ),
  };
}

/** The guide names no versions: those that the repository is tested with. */
async function pinned(command: string, tarballs: Tarballs): Promise<string> {
  const manifest = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>;
    readonly devDependencies: Readonly<Record<string, string>>;
  };
  const versions = { ...manifest.devDependencies, ...manifest.dependencies };
  return command
    .split(' ')
    .map((word) => {
      const name = publishedPackages.find((each) => word.includes(`echoperator-${each}`) && word.endsWith('.tgz'));
      if (name !== undefined) return tarballs[name];
      return word in versions ? `${word}@${versions[word]}` : word;
    })
    .join(' ');
}

/** The environment of a project on Node 24 that uses this npm cache. */
const projectEnvironment = ({ node24, npmCache }: Omit<Prepared, 'folder' | 'tarballs'>) => ({
  ...process.env,
  PATH: [node24, process.env.PATH].join(':'),
  npm_config_cache: npmCache,
  npm_config_audit: 'false',
  npm_config_update_notifier: 'false',
});

/** The environment of a project on what is {@link prepared}: npm finds every package in its cache. */
export const offlineEnvironment = () => ({ ...projectEnvironment(prepared()), npm_config_offline: 'true' });

/** Makes the folder an npm project with the package, by the guide's first two commands. */
export async function installPackage(project: EmptyProject): Promise<void> {
  const [init] = guideCommands();
  await project.run(init?.command ?? '');
  await project.run((await installCommands(prepared().tarballs)).guide);
}

/** Downloads and builds all that the tests need, and shows how it goes on. */
export async function prepare(): Promise<void> {
  await ensureBinaries(['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl']);
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-package-'));
  const npmCache = join(cacheFolder(), 'npm');
  let node24 = '';
  let tarballs: Tarballs = { runtime: '', testing: '', cli: '', 'create-operator': '' };
  const steps = [
    {
      title: 'Node 24',
      expectedMs: 20_000,
      run: async () => {
        node24 = await ensureNode24();
      },
    },
    {
      title: 'the packages that are published',
      expectedMs: 10_000,
      run: async () => {
        tarballs = await packTarballs(folder);
      },
    },
    {
      title: 'the packages that the tests install',
      expectedMs: 30_000,
      run: () => fillCache(join(folder, 'rehearsal'), tarballs, { node24, npmCache }),
    },
  ];
  await runSteps(steps, standardDisplay());
  process.env.PACKAGE_PREPARED = JSON.stringify({ folder, tarballs, node24, npmCache } satisfies Prepared);
}

/** Installs once what the tests will install: then npm has every package and every version list in its cache. */
async function fillCache(
  folder: string,
  tarballs: Tarballs,
  { node24, npmCache }: Omit<Prepared, 'folder' | 'tarballs'>,
): Promise<void> {
  await mkdir(npmCache, { recursive: true });
  const project = await EmptyProject.make(folder, projectEnvironment({ node24, npmCache }));
  const commands = await installCommands(tarballs);
  const manifest = (name: string) => readFile(join(folder, '../packages', name, 'package.json'), 'utf8');
  const versions = await readFile(join(folder, '../packages/create-operator/versions.json'), 'utf8');
  const wanted = [
    commands.guide.replace(tarballs.runtime, await manifest('runtime')),
    commands.types.replace(tarballs.testing, await manifest('testing')).replace(tarballs.cli, await manifest('cli')),
    versions,
    installWebhooks,
  ].join('\n');
  const filled = join(npmCache, `filled-${createHash('sha256').update(wanted).digest('hex')}`);
  const isFilled = await access(filled).then(
    () => true,
    () => false,
  );
  if (isFilled) return;
  await project.run('npm init --yes');
  await project.run(`${commands.guide} --prefer-offline`);
  await project.run(`${commands.types} --prefer-offline`);
  const parent = await EmptyProject.make(join(folder, 'created'), projectEnvironment({ node24, npmCache }));
  const operator = await createOperator(parent, tarballs);
  await operator.run(`${installOperator(tarballs)} --prefer-offline`);
  await operator.run(`${installWebhooks} --prefer-offline`);
  await writeFile(filled, wanted);
}
