import { afterAll, beforeAll, describe, test } from '@jest/globals';
import { isWatch, isWrite } from '../../../src/runtime/testing/index.ts';
import {
  expired,
  forget,
  isSecondPage,
  setUp,
  streamedListBreaksOff,
  survive,
  tearDown,
  withSubject,
} from './environment/network-faults.ts';

/** One fault of each sort; the others are in network.nightly.test.ts. */

beforeAll(() => setUp());
afterAll(() => tearDown());

describe('while it streams its lists', () => {
  withSubject();

  test('the connection is reset in mid-watch', async () => {
    await survive({ fault: { type: 'cut', how: 'reset' }, on: isWatch, strikes: 4 });
  });

  test('a streamed list breaks off in its middle: reset', () => streamedListBreaksOff('reset'));

  test('410 ends a watch from inside', async () => {
    await survive({ fault: expired, on: isWatch, strikes: 4 });
  });

  test('the reply to every second write is lost', async () => {
    await survive({ fault: { type: 'lost-reply' }, on: isWrite, every: 2, strikes: 10 });
  });
});

describe('while it lists in pages', () => {
  withSubject({ listing: 'paged' });

  test('a continue token has expired', async () => {
    const forgotten = forget();
    await survive({ fault: { type: 'answer', status: 410, reason: 'Expired' }, on: isSecondPage, times: 1 });
    await forgotten();
  });
});
