/** The suites of `make test`, `make quick` and `make test-nightly`, in the order in which they run. */
import { availableParallelism } from 'node:os';
import { clusterPrograms } from '../../tools/cluster/index.ts';
import { type BinaryName, catalogue } from '../../tools/programs/index.ts';

export type Suite = {
  readonly name: string;
  /** `check`: a program whose exit code is the result. `jest`: projects of jest.config.js. */
  readonly kind: 'check' | 'jest';
  readonly command: readonly [string, ...string[]];
  /** Additional environment variables of the command. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The cluster's programs that the suite needs. */
  readonly programs?: readonly BinaryName[];
  /** Returns the reason why this machine cannot run the suite, or undefined if it can. */
  readonly leftOut?: (machine: Machine) => string | undefined;
  /** Runs at the same time as the integration tests, which take about as long as all such suites together. */
  readonly besideIntegration?: true;
  /** The suite may pass without a test: `make quick` may find no affected test. */
  readonly mayBeEmpty?: true;
};

export type Machine = { readonly platform: NodeJS.Platform; readonly root: boolean };

/** The time limit of a nightly suite. */
export const nightlyLimitMs = 60 * 60_000;

const check = (name: string, ...command: readonly [string, ...string[]]): Suite => ({ name, kind: 'check', command });

/** The command of `npm run jest` without npm and its shell, so that a signal reaches jest. */
const jestCommand = [
  process.execPath,
  '--experimental-vm-modules',
  '--disable-warning=ExperimentalWarning',
  'node_modules/jest/bin/jest.js',
] as const;

type JestSuite = Omit<Suite, 'name' | 'kind' | 'command'> & {
  /** Projects of jest.config.js. Default: the project with the suite's name. */
  readonly projects?: readonly string[];
  readonly flags?: readonly string[];
};

const jest = (name: string, { projects = [name], flags = [], ...rest }: JestSuite = {}): Suite => ({
  name,
  kind: 'jest',
  command: [...jestCommand, '--selectProjects', ...projects, ...flags],
  ...rest,
});

const apiServer: readonly BinaryName[] = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl'];

export const integrationPrograms: readonly BinaryName[] = [...apiServer, 'kwok', 'election-candidate', 'helm', 'helm4'];

const onControlPlane: JestSuite = { programs: integrationPrograms };

const onApiServer: JestSuite = { besideIntegration: true, programs: apiServer };

const onRecordedServer = { besideIntegration: true, programs: ['etcd', 'kube-apiserver'] } as const;

/** Most tests of the chart only render it. The tests of releases install it on an API server. */
const onReleases: JestSuite = { besideIntegration: true, programs: [...apiServer, 'helm', 'helm4'] };

const onCluster: JestSuite = {
  besideIntegration: true,
  programs: [...clusterPrograms, 'helm', 'helm4'],
  leftOut: ({ platform, root }) =>
    platform === 'linux' && root
      ? undefined
      : `needs a cluster, which requires root on Linux (this is ${root ? 'root' : 'not root'} on ${platform})`,
};

const linters = [check('lint', 'npm', 'run', '--silent', 'lint'), check('types', 'npm', 'run', '--silent', 'types')];

/** The suites that every change must pass. */
export const pushSuites: readonly Suite[] = [
  ...linters,
  // Some tests wait for pauses. The default is a worker for each processor.
  jest('unit', { flags: [`--maxWorkers=${Math.ceil(availableParallelism() * 1.5)}`] }),
  // Defaults of built-in kinds are recorded from an API server.
  { ...check('generated', 'npm', 'run', '--silent', 'generate', '--', '--check'), ...onRecordedServer },
  jest('chart', onReleases),
  jest('integration', onControlPlane),
  jest('package', onApiServer),
  // Several files run at a time, because they mostly wait for pods.
  jest('kinds', { ...onCluster, flags: ['--maxWorkers=3'] }),
  // One file runs at a time, because the files share a cluster, delete its CustomResourceDefinitions and inspect the
  // host.
  jest('e2e', { ...onCluster, flags: ['--runInBand'] }),
];

/** The suites of `make quick`: lint, types, and the unit tests of files that changed since a revision. */
export const quickSuites = (since: string): readonly Suite[] => [
  ...linters,
  jest('unit', { flags: [`--changedSince=${since}`, '--passWithNoTests'], mayBeEmpty: true }),
];

const nightlyNeeds = {
  integration: onControlPlane,
  package: onApiServer,
  kinds: onCluster,
  e2e: onCluster,
  release: { ...onCluster, programs: [...(onCluster.programs ?? []), ...apiServer, 'registry'] },
  // Its tests open pages in a browser, without a cluster.
  site: {},
} as const;

type NightlyFiles = {
  /** The folder that contains the suite's nightly files. */
  readonly folder: keyof typeof nightlyNeeds;
  /** A regular expression for the paths of the files. Default: every nightly file of the folder. */
  readonly paths?: string;
};

/** A suite that runs nightly files one after the other. */
const nightly = (name: string, { folder, paths = `test/${folder}/` }: NightlyFiles): Suite =>
  jest(name, {
    ...nightlyNeeds[folder],
    projects: [`${folder}-nightly`],
    flags: ['--runInBand', '--testPathPatterns', paths],
  });

/** The tests that need no pods: kwok.ts schedules those with an API that the oldest Kubernetes lacks. */
const oldestKubernetesPaths =
  '(integration/(oldest-kubernetes\\.nightly|apply-crds|stored-before|echo|scheduled-echo|postgres-writer|pet|rbac)|chart/releases)\\.test';

/** The suites that take too long for every change. */
export const nightlySuites: readonly Suite[] = [
  nightly('nightly-faults', { folder: 'integration', paths: '/faults/' }),
  nightly('nightly-elections', { folder: 'integration', paths: '/elections/' }),
  nightly('nightly-apply', { folder: 'integration', paths: '/apply-random' }),
  nightly('nightly-book-store', { folder: 'integration', paths: '/book-store' }),
  nightly('nightly-pet', { folder: 'integration', paths: '/pet-' }),
  nightly('nightly-postgres-writer', { folder: 'integration', paths: '/postgres-writer' }),
  nightly('nightly-pod-set', { folder: 'integration', paths: '/pod-set' }),
  nightly('nightly-many', { folder: 'integration', paths: '/(echo-many|many-children)' }),
  nightly('nightly-hostile-objects', { folder: 'integration', paths: '/hostile-objects' }),
  nightly('nightly-imported-kinds', { folder: 'integration', paths: '/imported-kinds' }),
  nightly('nightly-permissions', { folder: 'integration', paths: '/permissions' }),
  nightly('nightly-simulation', { folder: 'integration', paths: '/simulated-' }),
  nightly('nightly-plan', { folder: 'integration', paths: '/plan-' }),
  nightly('nightly-versions', { folder: 'integration', paths: '/versions' }),
  jest('nightly-oldest-kubernetes', {
    programs: [...integrationPrograms, 'kube-apiserver-oldest', 'kube-controller-manager-oldest'],
    projects: ['integration', 'integration-nightly', 'chart'],
    flags: ['--runInBand', '--testPathPatterns', oldestKubernetesPaths],
    environment: { KUBERNETES: 'oldest', HELMS: 'every' },
  }),
  jest('nightly-unit', { projects: ['unit'], environment: { RANDOM_VALUES: 'other' } }),
  jest('nightly-chart', {
    ...onReleases,
    programs: [...(onReleases.programs ?? []), 'promtool', 'registry'],
    projects: ['chart', 'chart-nightly'],
    environment: { HELMS: 'every' },
  }),
  {
    ...nightly('nightly-alerts', { folder: 'integration', paths: '/alerts' }),
    programs: [...integrationPrograms, 'prometheus'],
  },
  nightly('nightly-package', { folder: 'package', paths: '/package\\.nightly' }),
  {
    ...nightly('nightly-scaffold', { folder: 'package', paths: '/create-operator' }),
    ...onCluster,
    programs: [...new Set([...apiServer, ...clusterPrograms, 'helm4' as const])],
  },
  {
    ...nightly('nightly-webhooks', { folder: 'package', paths: '/webhooks' }),
    ...onCluster,
    programs: [...new Set([...apiServer, ...clusterPrograms, 'helm4' as const])],
  },
  nightly('nightly-kinds', { folder: 'kinds' }),
  {
    ...nightly('nightly-helm', { folder: 'e2e', paths: '/(helm|image-registry)' }),
    programs: [...(onCluster.programs ?? []), 'registry'],
  },
  nightly('nightly-high-availability', { folder: 'e2e', paths: '/high-availability' }),
  nightly('nightly-release', { folder: 'release' }),
  nightly('nightly-cluster', { folder: 'e2e', paths: '/(cluster|lost-node|volumes)' }),
  nightly('nightly-site', { folder: 'site' }),
  { ...check('nightly-workflows', process.execPath, 'test/run/lint-workflows.ts'), programs: ['actionlint'] },
  { ...check('nightly-perturbation', process.execPath, 'test/perturb.ts'), programs: apiServer },
  { ...check('nightly-mutation', process.execPath, 'test/mutate.ts'), programs: integrationPrograms },
  check('nightly-exploration', process.execPath, 'test/explore.ts'),
  { ...check('nightly-seeded-bugs', process.execPath, 'test/seeded-bugs.ts'), programs: integrationPrograms },
  { ...check('nightly-replay', process.execPath, 'test/replay.ts'), programs: integrationPrograms },
  {
    ...check('nightly-soak', process.execPath, 'test/soak.ts'),
    programs: ['etcd', 'kube-apiserver'],
    environment: { SOAK_MINUTES: '30' },
  },
];

/** The name of the step that builds the cluster's programs. */
export const binaries = 'binaries';

/**
 * Inserts a step that builds the cluster's programs before the first suite that needs them. The build takes ten minutes
 * on a new machine, which should not count as the suite's time.
 */
export function withBinaries(chosen: readonly Suite[], machine: Machine): readonly Suite[] {
  const needs = (suite: Suite): readonly BinaryName[] =>
    suite.leftOut?.(machine) === undefined ? (suite.programs ?? []) : [];
  const first = chosen.findIndex((suite) => needs(suite).length > 0);
  if (first === -1) return chosen;
  const needed = new Set(chosen.flatMap(needs));
  const programs = catalogue.map(({ name }) => name).filter((name) => needed.has(name));
  return chosen.toSpliced(first, 0, check(binaries, process.execPath, 'tools/programs/main.ts', ...programs));
}

/** Lanes that run at the same time. The suites of a lane run one after the other. */
type Stage = readonly (readonly Suite[])[];

/**
 * Divides the suites into stages: the checks next to the unit tests, then the build of the cluster's programs, then the
 * suites that need these: in two lanes, or in three on a machine with four processors.
 */
export function stagesOf(chosen: readonly Suite[], processors = availableParallelism()): readonly Stage[] {
  const needsPrograms = ({ programs = [] }: Suite): boolean => programs.length > 0;
  const first = chosen.filter((suite) => !needsPrograms(suite) && suite.name !== binaries);
  const rest = chosen.filter(needsPrograms);
  const beside = rest.filter(({ besideIntegration }) => besideIntegration);
  const stages = [
    [first.filter(({ kind }) => kind === 'check'), first.filter(({ kind }) => kind === 'jest')],
    [chosen.filter(({ name }) => name === binaries)],
    [
      rest.filter(({ besideIntegration }) => !besideIntegration),
      ...(processors < 4
        ? [beside]
        : [beside.filter((suite) => !suite.leftOut), beside.filter(({ leftOut }) => leftOut)]),
    ],
  ];
  return stages.map((lanes) => lanes.filter((lane) => lane.length > 0)).filter((lanes) => lanes.length > 0);
}
