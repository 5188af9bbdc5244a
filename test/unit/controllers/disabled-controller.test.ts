import { describe, expect, test } from '@jest/globals';
import { BookStore, bookStoreFinalizer, PodSet } from '../../../src/api/index.ts';
import { disabledMessage } from '../../../src/controllers/disabled-controller.ts';

describe('the message of an object whose controller is disabled', () => {
  const setting = 'controllers.bookStore.enabled';
  const object = (metadata: object) => ({
    metadata: {
      name: 'shop',
      namespace: 'default',
      uid: 'u',
      resourceVersion: '1',
      creationTimestamp: '',
      generation: 1,
      ...metadata,
    },
  });
  const ofShop = (metadata: object) =>
    disabledMessage(BookStore, object(metadata), { setting, finalizer: bookStoreFinalizer });
  const deletionTimestamp = '2026-01-01T00:00:00Z';
  const advice =
    'Enable it with helm upgrade RELEASE CHART --reset-then-reuse-values --set controllers.bookStore.enabled=true';

  test('names the command that enables it', () => {
    expect(ofShop({ finalizers: [bookStoreFinalizer] })).toBe(
      `the controller of BookStore is disabled: nothing is created, changed or deleted for this object. ${advice}`,
    );
  });

  test('names the finalizer that a deletion waits for', () => {
    expect(ofShop({ finalizers: [bookStoreFinalizer], deletionTimestamp })).toBe(
      `the controller of BookStore is disabled: the deletion waits until it is enabled, or until you remove the finalizer ${bookStoreFinalizer}, which leaves behind what the controller would delete. ${advice}`,
    );
  });

  test('does not speak of a deletion that waits for something else', () => {
    const others = { finalizers: ['example.com/other'], deletionTimestamp };
    expect(ofShop(others)).not.toContain('waits');
    expect(disabledMessage(PodSet, object(others), { setting })).not.toContain('waits');
  });
});
