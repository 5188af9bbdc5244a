import { jest } from '@jest/globals';

// Tests here wait for a real API server and its controllers; the limit is there to end what hangs.
jest.setTimeout(240_000);
