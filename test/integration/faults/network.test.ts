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

describe('an informer with streamed lists has everything in the end', () => {
  withSubject();

  test('when the connection is reset in mid-watch', async () => {
    await survive({ fault: { type: 'cut', how: 'reset' }, on: isWatch, strikes: 4 });
  });

  test('when a streamed list breaks off in its middle', () => streamedListBreaksOff('reset'));

  test('when 410 ends a watch from inside', async () => {
    await survive({ fault: expired, on: isWatch, strikes: 4 });
  });

  test('when the reply to every second write is lost', async () => {
    await survive({ fault: { type: 'lost-reply' }, on: isWrite, every: 2, strikes: 10 });
  });
});

describe('an informer with paged lists has everything in the end', () => {
  withSubject({ listing: 'paged' });

  test('when a continue token has expired', async () => {
    const forgotten = forget();
    await survive({ fault: { type: 'answer', status: 410, reason: 'Expired' }, on: isSecondPage, times: 1 });
    await forgotten();
  });
});
