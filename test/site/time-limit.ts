import { jest } from '@jest/globals';

// The site is built, and a browser opens all its pages; the limit is there to end what hangs.
jest.setTimeout(1_800_000);
