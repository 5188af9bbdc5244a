import { jest } from '@jest/globals';

// Each test runs Helm several times, which a busy machine makes slow; the limit is there to end what hangs.
jest.setTimeout(120_000);
