import { jest } from '@jest/globals';

// A step builds images and packages, or waits for pods. The limit only ends tests that hang.
jest.setTimeout(900_000);
