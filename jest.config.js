import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { cacheFolder } from './tools/cache-folder.ts';

/** Each suite is two jest projects, one for each push and one nightly: `npm run jest -- --selectProjects unit`. */
const shared = {
  testEnvironment: '<rootDir>/test/open-handles-environment.ts',
  modulePathIgnorePatterns: ['<rootDir>/dist/'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': '<rootDir>/test/strip-types.js' },
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

const withSetup = (name) => ({
  globalSetup: `<rootDir>/test/${name}/global-setup.ts`,
  globalTeardown: `<rootDir>/test/${name}/global-teardown.ts`,
});

export default {
  // Each worker of the integration suite has its own API server, so a second worker is faster even on a single core.
  maxWorkers: Math.max(2, availableParallelism()),
  // A worker that has not exited by then fails the run. The default of 500 ms is too short for a busy machine.
  workerGracefulExitTimeout: 20_000,
  // Not in the temporary folder, which each run has for itself.
  cacheDirectory: join(cacheFolder(), 'jest'),
  testSequencer: '<rootDir>/test/run/file-order.ts',
  projects: [
    ...suite('unit', { folders: ['test/unit', 'bench/test'] }),
    ...suite('chart', { globalSetup: '<rootDir>/test/chart/global-setup.ts' }),
    ...suite('integration', withSetup('integration')),
    ...suite('package', withSetup('package')),
    ...suite('kinds', withSetup('kinds')),
    ...suite('e2e', withSetup('e2e')),
    ...suite('release'),
    ...suite('site'),
  ],
};
