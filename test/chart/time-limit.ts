import { jest } from '@jest/globals';

// Each test runs Helm several times, which is slow on a busy machine. The limit only ends tests that hang.
jest.setTimeout(120_000);
