import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { V1Job } from '@kubernetes/client-node';
import { execa } from 'execa';
import { parse } from 'yaml';
import { eventually } from '../../testkit/eventually.ts';
import { type ImageRegistry, startImageRegistry } from '../../testkit/image-registry.ts';
import { type NpmRegistry, startNpmRegistry } from '../../testkit/npm-registry.ts';
import { Cluster, removeClusterOnExit, type Watchdog } from '../../tools/cluster/index.ts';
import { ensureDebianPackages } from '../../tools/debian.ts';
import { type ChartRepository, serveChartRepository } from '../../tools/demo/chart-repository.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { publishedPackages } from '../../tools/release/npm-package.ts';
import { E2eCluster, echo } from '../e2e/environment/cluster.ts';
import { DocumentedSteps } from '../e2e/environment/documented.ts';
import { guideCommands, guideFiles } from '../package/environment/guide.ts';
import { EmptyProject } from '../package/environment/project.ts';
import { ReleasedRepository } from './environment/released-repository.ts';
import { runJob } from './environment/workflow.ts';

const [candidate, version] = ['0.1.0-rc.1', '0.1.0'] as const;
const images = ['echoperator', 'petstore'] as const;
const names = publishedPackages.map((name) => `@echoperator/${name}`);
const [lastName = ''] = names.slice(-1);

/** The time to build the programs and to start the cluster, if no earlier run has. */
const setUpMs = 900_000;
const clusterName = 't-release';

let folder: string;
let repository: ReleasedRepository;
let npm: NpmRegistry;
let oci: ImageRegistry;
let charts: ChartRepository;
let nodes: Cluster;
let watchdog: Watchdog;
let cluster: E2eCluster;
let project: EmptyProject;
/** Has Helm, and programs that only record what GitHub's runner would have them do: cosign and gh. */
let bin: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'release-'));
  bin = join(folder, 'bin');
  await mkdir(bin);
  await ensureDebianPackages(['buildah', 'skopeo']);
  await symlink((await ensureBinaries(['helm4'])).get('helm4') ?? '', join(bin, 'helm'));
  await record('cosign', '');
  // No release exists before it is created.
  await record('gh', `if [ "$2" = view ]; then grep --quiet "^release create $3 " ${join(folder, 'gh')}; fi`);
  // A killed run may have left it.
  await Cluster.down(clusterName);
  watchdog = await removeClusterOnExit(clusterName);
  nodes = await Cluster.up({ name: clusterName, nodes: 1 });
  cluster = await E2eCluster.connect(nodes);
  oci = await startImageRegistry({ folder, host: nodes.hostAddress });
  await nodes.allowRegistryWithoutTls(oci.address);
  npm = await startNpmRegistry({ folder: join(folder, 'npm'), scope: '@echoperator' });
  repository = await ReleasedRepository.copy(folder);
  await mkdir(join(folder, 'pages'));
  charts = await serveChartRepository(join(folder, 'pages'));
  const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  const { PATH: path = '', HOME: home = '' } = process.env;
  project = await EmptyProject.make(join(folder, 'project'), {
    ...{ PATH: [dirname(kubectl), path].join(':'), HOME: home, KUBECONFIG: cluster.kubeconfig },
    ...npm.environment,
  });
}, setUpMs);

afterAll(async () => {
  await charts?.[Symbol.asyncDispose]();
  await npm?.[Symbol.asyncDispose]();
  await oci?.[Symbol.asyncDispose]();
  await nodes?.down();
  await watchdog?.release();
  await rm(folder, { recursive: true, force: true });
});

/** Writes a program that appends its arguments to a file of its name. */
async function record(name: string, script: string): Promise<void> {
  const program = join(bin, name);
  await writeFile(program, `#!/bin/sh -e\n${script}\necho "$*" >> ${join(folder, name)}\n`);
  await chmod(program, 0o755);
}

/** Returns what a recorded program was called with. */
const recorded = async (name: string): Promise<readonly string[]> =>
  (await readFile(join(folder, name), 'utf8')).trimEnd().split('\n');

/** Runs a job of the release of a version. @returns the output of its last step, and whether that failed */
async function job(name: string, of: string, { image = '', skipped = [] as readonly string[] } = {}) {
  const results = await runJob(name, {
    folder: repository.folder,
    temp: join(folder, `release-${of}`),
    skipped,
    environment: {
      ...npm.environment,
      PATH: `${bin}:${process.env.PATH}`,
      GITHUB_REF_NAME: `v${of}`,
      GITHUB_SHA: await repository.git('rev-parse', `v${of}`),
      VERSION: of,
      IMAGE: image,
    },
    // The registry has no TLS, and npm makes a provenance statement only on GitHub.
    rewrite: (script) =>
      script
        .replaceAll('ghcr.io/', `${oci.address}/`)
        .replaceAll('"$repository:$VERSION")', '"$repository:$VERSION" --plain-http)')
        .replaceAll('https://echoperator.github.io/echoperator', charts.url)
        .replaceAll(' --provenance', ''),
  });
  const last = results.at(-1);
  return { succeeded: last?.exitCode === 0, output: results.map(({ all }) => all).join('\n') };
}

const succeeds = async (...args: Parameters<typeof job>): Promise<void> => {
  const { succeeded, output } = await job(...args);
  expect({ succeeded, output }).toEqual({ succeeded: true, output });
};

const fails = async (message: string, ...args: Parameters<typeof job>): Promise<void> =>
  expect(await job(...args)).toEqual({ succeeded: false, output: expect.stringContaining(message) });

/** Makes a version's commit and tag, and everything that its jobs publish. */
async function prepare(of: string): Promise<void> {
  await repository.release(of);
  // Here the base images are local, the packages are linked, and the copy has no history.
  const skipped = [
    'Refuse base images without a digest',
    'Install the packages',
    'Refuse a benchmark that is older than the code',
  ];
  await succeeds('build', of, { skipped });
  for (const image of images) {
    const args = ['tools/release/image.ts', image];
    const { stdout } = await execa(process.execPath, args, { cwd: repository.folder });
    const archive = stdout.split('\n').at(-1);
    // Instead of the action that builds for two architectures.
    const target = `oci-archive:${join(folder, `release-${of}/release/${image}.tar`)}`;
    await execa('skopeo', ['copy', '--quiet', `docker-archive:${archive}`, target]);
  }
}

/** What Pages would serve: the branch of the remote. */
async function updatePages(): Promise<readonly string[]> {
  const { stdout } = await execa('git', ['archive', 'gh-pages'], { cwd: repository.origin, encoding: 'buffer' });
  await execa('tar', ['--extract', '--directory', join(folder, 'pages')], { input: stdout });
  return (await readdir(join(folder, 'pages'))).sort();
}

/** Returns a field of each of our packages in npm's registry. */
async function inNpm(path: (document: NpmDocument) => unknown): Promise<readonly unknown[]> {
  return Promise.all(names.map(async (name) => path((await (await fetch(`${npm.url}${name}`)).json()) as NpmDocument)));
}

interface NpmDocument {
  readonly versions?: Readonly<Record<string, { readonly dist: { readonly integrity: string } }>>;
  readonly 'dist-tags'?: Readonly<Record<string, string>>;
}

const versionsInNpm = () => inNpm(({ versions = {} }) => Object.keys(versions));

const release = 'echoperator';
const helm = (...args: readonly string[]) => cluster.helm([...args, '--namespace', release], 'helm4');
const install = (chart: readonly string[]) =>
  helm('upgrade', '--install', release, ...chart, '--create-namespace', '--wait', '--timeout=240s', ...registry());
/** Not `global.imageRegistry`, which is also that of the pods of Echos. */
const registry = (): readonly string[] => ['--set', `image.repository=${oci.address}/echoperator/echoperator`];
const fromOci = (of: string) => [
  `oci://${oci.address}/echoperator/charts/echoperator`,
  `--version=${of}`,
  '--plain-http',
];
const fromRepository = (...flags: readonly string[]) => ['echoperator', `--repo=${charts.url}`, ...flags];

/** Returns the images of the release's running pods, each once. */
async function runningImages(): Promise<readonly string[]> {
  const { items } = await cluster.get<{ items: { spec: { containers: { image: string }[] } }[] }>(
    'pods',
    `--namespace=${release}`,
    '--selector=app.kubernetes.io/name=echoperator',
    '--field-selector=status.phase=Running',
  );
  return [...new Set(items.flatMap(({ spec }) => spec.containers.map(({ image }) => image)))];
}

async function printsEcho(name: string): Promise<void> {
  await cluster.apply(echo(name, 'default', { message: name }));
  await cluster.kubectl(['wait', '--for=condition=Ready', `echo/${name}`, '--namespace=default', '--timeout=120s']);
  expect(await cluster.logOf(name, 'default')).toBe(`${name}\n`);
}

/** Installs the packages with a tag by their names, and lets the guide's operator write a ConfigMap. */
async function greetsWith(tag: string, who: string): Promise<void> {
  const [init, install] = guideCommands();
  await project.run(init?.command ?? '');
  await project.run((install?.command ?? '').replace(/\S+\.tgz/, names.map((name) => `${name}@${tag}`).join(' ')));
  for (const name of names) await project.run(`npm ls ${name}`);
  await project.write('greeter.ts', guideFiles['greeter.ts'] ?? '');
  await project.run('node greeter.ts crds | kubectl apply --filename -');
  await project.run('kubectl wait --for=condition=Established crd/greetings.example.com');
  const operator = project.start('node', ['greeter.ts']);
  try {
    const greeting = { apiVersion: 'example.com/v1', kind: 'Greeting', metadata: { name: who }, spec: { who } };
    await project.run(`kubectl apply --filename - <<'END'\n${JSON.stringify(greeting)}\nEND`);
    await project.run(`kubectl wait --for=condition=Ready greeting/${who} --timeout=60s`);
    const text = () => project.run(`kubectl get configmap ${who} --output jsonpath='{.data.text}'`).catch(() => '');
    expect(await text()).toBe(`Hello, ${who}!`);
    await project.run(`kubectl delete configmap ${who}`);
    await eventually('the ConfigMap is restored', async () => (await text()) === `Hello, ${who}!`);
  } finally {
    operator.kill('SIGTERM');
    await operator;
  }
}

// The tests are the steps of a release, so each builds on those before it.

describe('a prerelease', () => {
  test('has a commit and a tag with the version everywhere, and its packages', async () => {
    await prepare(candidate);
    expect(await repository.git('tag', '--list')).toBe(`v${candidate}`);
    const made = await readdir(join(folder, `release-${candidate}/release`), { recursive: true });
    expect(made).toEqual(
      expect.arrayContaining([
        'notes.md',
        `echoperator-${candidate}.tgz`,
        ...publishedPackages.map((name, index) => `npm/${index + 1}-echoperator-${name}-${candidate}.tgz`),
      ]),
    );
  });

  test('is published: images, chart, npm packages, and a GitHub release', async () => {
    for (const image of images) await succeeds('image', candidate, { image });
    await succeeds('chart', candidate);
    await succeeds('npm', candidate);
    await succeeds('release', candidate);
    expect(await versionsInNpm()).toEqual(names.map(() => [candidate]));
    expect(await inNpm((document) => document['dist-tags']?.next)).toEqual(names.map(() => candidate));
    expect(await updatePages()).toEqual([`echoperator-${candidate}.tgz`, 'index.yaml']);
    expect(await recorded('gh')).toEqual([
      expect.stringMatching(`^release create v${candidate} --prerelease --verify-tag .*/notes.md$`),
    ]);
  });

  test('has images and a chart that are signed by the digest in the registry', async () => {
    const digestOf = async (path: string): Promise<string | null> => {
      const accept = 'application/vnd.oci.image.manifest.v1+json,application/vnd.oci.image.index.v1+json';
      const response = await fetch(`http://${oci.address}/v2/echoperator/${path}/manifests/${candidate}`, {
        headers: { accept },
      });
      await response.text();
      return response.headers.get('docker-content-digest');
    };
    const artifacts = [...images, 'charts/echoperator'];
    const signed = await Promise.all(
      artifacts.map(async (path) => `sign --yes ${oci.address}/echoperator/${path}@${await digestOf(path)}`),
    );
    expect(await recorded('cosign')).toEqual(signed);
  });

  test('is installed by the published names in an empty folder, and runs an operator', async () => {
    await greetsWith('next', 'candidate');
  });

  test('is installed by Helm from the chart repository, only if prereleases are asked for', async () => {
    await expect(install(fromRepository())).rejects.toThrow('not found');
    await install(fromRepository('--devel'));
    expect(await runningImages()).toEqual([`${oci.address}/echoperator/echoperator:${candidate}`]);
    await printsEcho('candidate');
  });
});

describe('a release after it', () => {
  test('needs a line in the changelog', async () => {
    await expect(repository.release(version)).rejects.toThrow('empty section');
    await repository.git('reset', '--quiet', '--hard', 'HEAD');
    await repository.addChange('Everything that the candidate lacked.');
    await prepare(version);
    expect(await readFile(join(folder, `release-${version}/release/notes.md`), 'utf8')).toContain(
      'Everything that the candidate lacked.',
    );
  });

  test('whose push of the chart repository is refused is repeated, and nothing is pushed twice', async () => {
    for (const image of images) await succeeds('image', version, { image });
    const hook = join(repository.origin, 'hooks/pre-receive');
    await writeFile(hook, '#!/bin/sh\necho "not now" >&2\nexit 1\n');
    await chmod(hook, 0o755);
    await fails('not now', 'chart', version);
    await rm(hook);
    await succeeds('chart', version);
    // Signs again, and finds both places with the same content.
    await succeeds('chart', version);
    expect(await repository.git('worktree', 'list')).not.toContain('pages');
    const log = await execa('git', ['log', '--format=%s', 'gh-pages'], { cwd: repository.origin });
    expect(log.stdout).toBe(`Add echoperator-${version}.tgz\nAdd echoperator-${candidate}.tgz`);
  });

  test('whose last npm package is refused is repeated, and publishes only that', async () => {
    await npm.setAccepts(lastName, false);
    await fails('E403', 'npm', version);
    await npm.setAccepts(lastName, true);
    expect(await versionsInNpm()).toEqual(
      names.map((name) => (name === lastName ? [candidate] : [candidate, version])),
    );
    const { succeeded, output } = await job('npm', version);
    const said = names.map((name) =>
      name === lastName ? `published ${name}@${version} as latest` : `${name}@${version} is published already`,
    );
    expect({ succeeded, said: output.split('\n').slice(1) }).toEqual({ succeeded: true, said });
    expect(await inNpm((document) => document['dist-tags'])).toEqual(
      names.map(() => ({ next: candidate, latest: version })),
    );
    await succeeds('release', version);
    // Finds the release.
    await succeeds('release', version);
    expect((await recorded('gh')).slice(1)).toEqual([
      expect.stringMatching(`^release create v${version} --verify-tag`),
      `release view v${version}`,
    ]);
  });

  test('upgrades the project in the folder, and its operator', async () => {
    await greetsWith('latest', 'released');
  });

  test('upgrades the installation by Helm from the OCI registry, which keeps what it did', async () => {
    await install(fromOci(version));
    expect(await runningImages()).toEqual([`${oci.address}/echoperator/echoperator:${version}`]);
    await cluster.kubectl(['wait', '--for=condition=Ready', 'echo/candidate', '--namespace=default']);
    await printsEcho('released');
  });

  test('is what Helm installs from the chart repository without a version', async () => {
    await helm('uninstall', release, '--wait', '--timeout=120s');
    const index = parse(await readFile(join(folder, 'pages/index.yaml'), 'utf8'));
    expect(index.entries.echoperator).toHaveLength(1);
    await updatePages();
    await install(fromRepository());
    expect(await runningImages()).toEqual([`${oci.address}/echoperator/echoperator:${version}`]);
    expect(await helm('test', release, '--timeout=120s')).toMatch(/Phase: +Succeeded/);
  });

  test('is left without losing the children, as the page on stability says', async () => {
    const [leave = ''] = (await DocumentedSteps.of('stability.md', 'How to leave')).scripts;
    await cluster.shell(leave, folder);
    const { metadata, status } = await cluster.get<V1Job>('job', 'released', '--namespace=default');
    expect(metadata?.ownerReferences).toBeUndefined();
    expect(status?.succeeded).toBe(1);
    await expect(cluster.kubectl(['get', 'echos.mmontes.io'])).rejects.toThrow('resource type');
  });

  test('is refused with other content, wherever it is published', async () => {
    const integrities = await inNpm(({ versions }) => versions?.[version]?.dist.integrity);
    await rm(join(folder, `release-${version}/release`), { recursive: true });
    await writeFile(join(repository.folder, 'packages/runtime/README.md'), 'Other content.\n');
    await writeFile(join(repository.folder, 'charts/echoperator/README.md'), 'Other content.\n');
    await execa(process.execPath, ['tools/release/pack.ts', version, join(folder, `release-${version}/release`)], {
      cwd: repository.folder,
      env: { PATH: `${bin}:${process.env.PATH}` },
    });
    await fails('is published with other content', 'npm', version);
    await fails('is published with other content', 'chart', version);
    expect(await inNpm(({ versions }) => versions?.[version]?.dist.integrity)).toEqual(integrities);
    const branch = [
      'add-to-chart-repository.ts',
      join(folder, `release-${version}/release/echoperator-${version}.tgz`),
    ];
    await expect(
      execa(process.execPath, [join('tools/release', branch[0] ?? ''), branch[1] ?? '', charts.url], {
        cwd: repository.folder,
      }),
    ).rejects.toThrow('is published with other content');
  });
});
