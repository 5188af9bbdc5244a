/** The suites of `make test`, in the order in which they begin: what fails fastest comes first. */
import { type BinaryName, catalogue } from '../../tools/programs/index.ts';

export type Suite = {
  readonly name: string;
  /** `check`: a program whose exit code is the result. `jest`: a project of jest.config.js. */
  readonly kind: 'check' | 'jest';
  readonly command: readonly [string, ...string[]];
  /** The cluster's programs that it runs. */
  readonly programs?: readonly BinaryName[];
  /** Why this machine cannot run the suite; undefined where it can, and then it must. */
  readonly leftOut?: (machine: Machine) => string | undefined;
  /** Most of what it does is to wait for pods: it runs beside those that do not, though not beside another such. */
  readonly waitsForPods?: true;
};

export type Machine = { readonly platform: NodeJS.Platform; readonly root: boolean };

const check = (name: string, ...command: readonly [string, ...string[]]): Suite => ({ name, kind: 'check', command });

/** What `npm run jest` does, without npm and its shell in between: a signal must reach jest itself. */
const jestCommand = [
  process.execPath,
  '--experimental-vm-modules',
  '--disable-warning=ExperimentalWarning',
  'node_modules/jest/bin/jest.js',
] as const;

const jest = (
  name: string,
  rest: Pick<Suite, 'programs' | 'leftOut' | 'waitsForPods'> = {},
  ...flags: readonly string[]
): Suite => ({
  name,
  kind: 'jest',
  command: [...jestCommand, '--selectProjects', name, ...flags],
  ...rest,
});

const onACluster: Pick<Suite, 'programs' | 'leftOut' | 'waitsForPods'> = {
  waitsForPods: true,
  programs: catalogue.map(({ name }) => name),
  leftOut: ({ platform, root }) =>
    platform === 'linux' && root
      ? undefined
      : `needs a cluster, and the project's own needs root on Linux (this is ${root ? 'root' : 'not root'} on ${platform})`,
};

export const suites: readonly Suite[] = [
  check('lint', 'npm', 'run', '--silent', 'lint'),
  check('types', 'npm', 'run', '--silent', 'types'),
  check('generated', 'npm', 'run', '--silent', 'generate', '--', '--check'),
  jest('unit'),
  jest('chart', { programs: ['helm', 'helm4'] }),
  jest('integration', {
    programs: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl', 'election-candidate', 'helm', 'helm4'],
  }),
  jest('package', { programs: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl'] }),
  // Several files at a time: most of what they do is to wait for pods.
  jest('kinds', onACluster, '--maxWorkers=3'),
  jest(
    'e2e',
    onACluster,
    // One file after the other: they share a cluster, take its CustomResourceDefinitions away, and look at the whole host.
    '--runInBand',
  ),
];

/**
 * The suites, and before the first that needs them the building of the cluster's programs: ten minutes on a new
 * machine, which are not the suite's own.
 */
export function withBinaries(chosen: readonly Suite[], machine: Machine): readonly Suite[] {
  const needs = (suite: Suite): readonly BinaryName[] =>
    suite.leftOut?.(machine) === undefined ? (suite.programs ?? []) : [];
  const first = chosen.findIndex((suite) => needs(suite).length > 0);
  if (first === -1) return chosen;
  const needed = new Set(chosen.flatMap(needs));
  const programs = catalogue.map(({ name }) => name).filter((name) => needed.has(name));
  return chosen.toSpliced(first, 0, check('binaries', process.execPath, 'tools/programs/main.ts', ...programs));
}

/** What runs beside one another, each a sequence. */
type Stage = readonly (readonly Suite[])[];

/** First those that need no program of the cluster, and what builds these; then the others, in two lanes where there are two. */
export function stagesOf(chosen: readonly Suite[]): readonly Stage[] {
  const first = chosen.findIndex(({ programs = [] }) => programs.length > 0);
  if (first === -1) return [[chosen]];
  const rest = chosen.slice(first);
  const lanes = [rest.filter(({ waitsForPods }) => !waitsForPods), rest.filter(({ waitsForPods }) => waitsForPods)];
  return [[chosen.slice(0, first)], lanes.filter((lane) => lane.length > 0)];
}
