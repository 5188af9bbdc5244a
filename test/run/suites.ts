/** The suites of `make test`, in the order in which they run: what fails fastest comes first. */

export type Suite = {
  readonly name: string;
  /** `check`: a program whose exit code is the result. `jest`: a project of jest.config.js. */
  readonly kind: 'check' | 'jest';
  readonly command: readonly [string, ...string[]];
  /** Why this machine cannot run the suite; undefined where it can, and then it must. */
  readonly leftOut?: (machine: Machine) => string | undefined;
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
  rest: { readonly flags?: readonly string[]; readonly leftOut?: Suite['leftOut'] } = {},
): Suite => ({
  name,
  kind: 'jest',
  command: [...jestCommand, '--selectProjects', name, ...(rest.flags ?? [])],
  ...(rest.leftOut === undefined ? {} : { leftOut: rest.leftOut }),
});

/** For suites whose files share one cluster: two operators there at once would do each other's work. */
const inBand = { flags: ['--runInBand'] };

export const suites: readonly Suite[] = [
  check('lint', 'npm', 'run', '--silent', 'lint'),
  check('types', 'npm', 'run', '--silent', 'types'),
  check('generated', 'npm', 'run', '--silent', 'generate', '--', '--check'),
  jest('unit'),
  jest('chart'),
  jest('integration', inBand),
  jest('e2e', {
    ...inBand,
    leftOut: ({ platform, root }) =>
      platform === 'linux' && root
        ? undefined
        : `e2e needs a cluster, and the project's own needs root on Linux (this is ${root ? 'root' : 'not root'} on ${platform})`,
  }),
];
