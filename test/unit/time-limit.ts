import { jest } from '@jest/globals';

// Unit tests take milliseconds; the limit is there to end what hangs, also on a machine with much else to do.
jest.setTimeout(120_000);
