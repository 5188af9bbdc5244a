import { jest } from '@jest/globals';

// Packages are fetched here, and a control plane started; the limit is there to end what hangs.
jest.setTimeout(300_000);
