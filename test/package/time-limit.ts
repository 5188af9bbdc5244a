import { jest } from '@jest/globals';

// A control plane is started, and TypeScript runs; the limit is there to end what hangs.
jest.setTimeout(300_000);
