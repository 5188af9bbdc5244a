import { availableParallelism } from 'node:os';

/** A jest project per suite, and one for what its folder runs nightly: `npm run jest -- --selectProjects unit`. */
const shared = {
  testEnvironment: '<rootDir>/test/open-handles-environment.ts',
  modulePathIgnorePatterns: ['<rootDir>/dist/'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' } },
    ],
  },
};

const suite = (name, { folders = [`test/${name}`], ...rest } = {}) => {
  const settings = {
    ...shared,
    setupFilesAfterEnv: [`<rootDir>/test/${name}/time-limit.ts`],
    ...rest,
  };
  return [
    {
      ...settings,
      displayName: name,
      testMatch: folders.map((folder) => `<rootDir>/${folder}/**/*.test.ts`),
      testPathIgnorePatterns: ['/node_modules/', '\\.nightly\\.test\\.ts$'],
    },
    {
      ...settings,
      displayName: `${name}-nightly`,
      testMatch: folders.map((folder) => `<rootDir>/${folder}/**/*.nightly.test.ts`),
    },
  ];
};

const withSetUp = (name) => ({
  globalSetup: `<rootDir>/test/${name}/global-setup.ts`,
  globalTeardown: `<rootDir>/test/${name}/global-teardown.ts`,
});

export default {
  // Each worker of the integration suite has an API server of its own: a second worker pays even on a single core.
  maxWorkers: Math.max(2, availableParallelism()),
  // A worker that has not ended by then cannot, and fails the run. Half a second, the default, a busy machine may take.
  workerGracefulExitTimeout: 20_000,
  testSequencer: '<rootDir>/test/run/file-order.ts',
  projects: [
    ...suite('unit', { folders: ['test/unit', 'bench/test'] }),
    ...suite('chart', { globalSetup: '<rootDir>/test/chart/global-setup.ts' }),
    ...suite('integration', withSetUp('integration')),
    ...suite('package', withSetUp('package')),
    ...suite('kinds', withSetUp('kinds')),
    ...suite('e2e', withSetUp('e2e')),
  ],
};
