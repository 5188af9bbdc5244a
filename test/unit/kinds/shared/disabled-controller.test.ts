import type { Client, KubeObject, Manager, Reconcile } from '@echoperator/runtime';
import type { EventNotice } from '@echoperator/runtime/controller';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { BookStore, bookStoreFinalizer } from '../../../../src/kinds/book-store/kind.ts';
import { PodSet } from '../../../../src/kinds/pod-set/kind.ts';
import {
  addDisabledController,
  disabledMessage,
  OverwrittenReports,
} from '../../../../src/kinds/shared/disabled-controller.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';

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

describe('a disabled controller', () => {
  const setting = 'controllers.podSet.enabled';
  const key = { namespace: 'default', name: 'web' };
  const metadata = { ...key, uid: 'u', resourceVersion: '1', creationTimestamp: '', generation: 3 };
  let object: KubeObject & { readonly status: object };
  let statusWrites: object[];
  let notes: string[];
  let isAnswerLost: boolean;
  let reconcile: Reconcile;

  const client = {
    mergeStatus: async (_: unknown, __: unknown, patch: object) => {
      statusWrites.push(patch);
      object = { ...object, status: { ...object.status, ...patch } };
      if (isAnswerLost) throw new Error('no answer');
      return object;
    },
  } as unknown as Client;
  const run = async () =>
    reconcile(key, { client, signal: new AbortController().signal, log: new RecordingLog() }).catch(() => 'failed');

  beforeEach(() => {
    object = { metadata, status: { replicas: 2, observedGeneration: 2 } };
    statusWrites = [];
    notes = [];
    isAnswerLost = false;
    const manager = {
      informer: () => ({ store: { get: () => object } }),
      controller: (_: unknown, options: { readonly reconcile: Reconcile }) => {
        reconcile = options.reconcile;
      },
    } as unknown as Manager;
    const events = {
      record: (_: unknown, __: unknown, { reason, note }: EventNotice) => notes.push(`${reason}: ${note}`),
    } as never;
    const finalizer = 'example.com/pods';
    addDisabledController(manager, PodSet, { events, namespaces: undefined, setting, finalizer });
  });

  test('reports it once, and keeps the rest of the status, which the own controller has written', async () => {
    await run();
    await run();
    expect(object.status).toMatchObject({
      replicas: 2,
      observedGeneration: 2,
      conditions: [{ observedGeneration: 3 }],
    });
    expect(statusWrites).toHaveLength(1);
    expect(notes).toEqual([expect.stringContaining('ControllerDisabled: the controller of PodSet is disabled')]);
  });

  test('records an Event when a deletion begins to wait', async () => {
    await run();
    const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['example.com/pods'] };
    object = { ...object, metadata: { ...metadata, ...deleted } };
    await run();
    expect(notes).toHaveLength(2);
    expect(notes[1]).toContain('the deletion waits');
  });

  test('records the Event although the answer to the status write is lost', async () => {
    isAnswerLost = true;
    expect(await run()).toBe('failed');
    expect(notes).toEqual([]);
    await run();
    await run();
    expect(notes).toHaveLength(1);
  });
});

describe('a report that another operator overwrites', () => {
  const report = { key: 'default/shop', uid: 'a' };
  const minute = 60_000;

  test('is written again after a minute, and then after twice as long, up to a day', () => {
    const reports = new OverwrittenReports();
    // An object of which this process has reported nothing was reconciled before the controller was disabled.
    expect(reports.pause(report, 0)).toEqual({ pauseMs: 0, isFirst: false });
    reports.reported(report);
    expect(reports.pause(report, 1000)).toEqual({ pauseMs: minute, isFirst: true });
    // An event of the other operator does not end the pause.
    expect(reports.pause(report, 1000 + 0.75 * minute)).toEqual({ pauseMs: 0.25 * minute, isFirst: false });
    expect(reports.pause(report, 1000 + minute).pauseMs).toBe(0);
    for (const pauseMs of [2, 4, 8].map((minutes) => minutes * minute)) {
      reports.reported(report);
      expect(reports.pause(report, 5000)).toEqual({ pauseMs, isFirst: false });
    }
    for (let times = 0; times < 20; times += 1) {
      reports.reported(report);
      reports.pause(report, 5000);
    }
    expect(reports.pause(report, 5000).pauseMs).toBe(24 * 60 * minute);
  });

  test('is written at once on a new object with the same name', () => {
    const reports = new OverwrittenReports();
    reports.reported(report);
    expect(reports.pause(report, 0).pauseMs).toBe(minute);
    expect(reports.pause({ ...report, uid: 'b' }, 0).pauseMs).toBe(0);
    reports.forget(report.key);
    expect(reports.pause(report, 0).pauseMs).toBe(0);
  });
});
