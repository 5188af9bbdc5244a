import { jest } from '@jest/globals';

// Tests here wait for real pods; the limit is there to end what hangs.
jest.setTimeout(300_000);
