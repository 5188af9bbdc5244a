/** One jest project per suite: `npm run jest -- --selectProjects unit`. */
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

const suite = (name, rest = {}) => ({
  ...shared,
  displayName: name,
  testMatch: [`<rootDir>/test/${name}/**/*.test.ts`],
  ...rest,
});

export default {
  // Whatever the machine has: each worker of the integration suite is given an API server of its own.
  maxWorkers: 2,
  projects: [
    suite('unit', { setupFilesAfterEnv: ['<rootDir>/test/unit/time-limit.ts'] }),
    suite('chart', {
      globalSetup: '<rootDir>/test/chart/global-setup.ts',
      setupFilesAfterEnv: ['<rootDir>/test/chart/time-limit.ts'],
    }),
    suite('integration', {
      globalSetup: '<rootDir>/test/integration/global-setup.ts',
      globalTeardown: '<rootDir>/test/integration/global-teardown.ts',
      setupFilesAfterEnv: ['<rootDir>/test/integration/time-limit.ts'],
    }),
    suite('package', { setupFilesAfterEnv: ['<rootDir>/test/package/time-limit.ts'] }),
    suite('kinds', {
      globalSetup: '<rootDir>/test/kinds/global-setup.ts',
      globalTeardown: '<rootDir>/test/kinds/global-teardown.ts',
      setupFilesAfterEnv: ['<rootDir>/test/kinds/time-limit.ts'],
    }),
    suite('e2e', {
      globalSetup: '<rootDir>/test/e2e/global-setup.ts',
      globalTeardown: '<rootDir>/test/e2e/global-teardown.ts',
      setupFilesAfterEnv: ['<rootDir>/test/e2e/time-limit.ts'],
    }),
  ],
};
