import { isWatch, isWrite } from '@echoperator/testing';
import { afterAll, beforeAll, describe, test } from '@jest/globals';
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

describe('an informer with streamed lists has all objects in the end', () => {
  withSubject();

  test('when the connection is reset during a watch', async () => {
    await survive({ fault: { type: 'cut', how: 'reset' }, on: isWatch, strikes: 4 });
  });

  test('when a streamed list breaks off', () => streamedListBreaksOff('reset'));

  test('when a 410 event ends a watch', async () => {
    await survive({ fault: expired, on: isWatch, strikes: 4 });
  });

  test('when the reply to every second write is lost', async () => {
    await survive({ fault: { type: 'lost-response' }, on: isWrite, every: 2, strikes: 10 });
  });
});

describe('an informer with paged lists has all objects in the end', () => {
  withSubject({ listing: 'paged' });

  test('when a continue token has expired', async () => {
    const forgotten = forget();
    await survive({ fault: { type: 'error-response', status: 410, reason: 'Expired' }, on: isSecondPage, times: 1 });
    await forgotten();
  });
});
