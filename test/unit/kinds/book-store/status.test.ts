import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Reason } from '@echoperator/runtime/controller';
import type { Deployment } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import { bookStoreController } from '../../../../src/kinds/book-store/controller.ts';
import { specWithDefaultsOf } from '../../../../src/kinds/book-store/desired.ts';
import { bookStoreReasons, documentedReasons } from '../../../../src/kinds/book-store/reasons.ts';
import {
  type AppResult,
  type ComponentOutcome,
  type DatabaseResult,
  firstOf,
  outcomeOf,
  rolloutOf,
  type VolumeOutcome,
} from '../../../../src/kinds/book-store/status.ts';
import { headingAnchors } from '../../../../testkit/markdown.ts';
import { bookStoreDefaults } from '../../../../testkit/pod-settings.ts';
import { bookStore, claim } from './objects.ts';

const said = <R extends string>(reason: R) => ({ reason, message: `words of ${reason}` });

interface Reasons {
  readonly app?: ComponentOutcome['reason'];
  readonly database?: ComponentOutcome['reason'];
  readonly volume?: VolumeOutcome['reason'];
}

function outcome(
  { app = 'AppServing', database = 'DatabaseServing', volume = 'VolumesSettled' }: Reasons,
  more: { readonly app?: Partial<AppResult>; readonly database?: Partial<DatabaseResult> } = {},
) {
  const store = bookStore();
  const ofDatabase = { database: said(database), volume: said(volume), claims: [], ...more.database };
  return outcomeOf(store, specWithDefaultsOf(store), { app: said(app), ...more.app }, ofDatabase);
}

describe('Ready', () => {
  test('is AllReady when every part is ready', () => {
    expect(outcome({})).toMatchObject({
      reason: 'AllReady',
      message: 'Deployment shop-app and StatefulSet shop-db match the spec and are ready',
    });
  });

  test.each<[Reasons, ComponentOutcome['reason'] | VolumeOutcome['reason']]>([
    [{ app: 'AppUpdating' }, 'AppUpdating'],
    [{ volume: 'ClaimsGrowing' }, 'ClaimsGrowing'],
    [{ database: 'ClaimBeingDeleted' }, 'ClaimBeingDeleted'],
    [{ database: 'IndependentDatabases' }, 'IndependentDatabases'],
    // What a person should act on comes first.
    [{ database: 'DatabaseUpdating', app: 'AppUpdating', volume: 'ResizeFailing' }, 'ResizeFailing'],
    [{ database: 'DatabaseUpdating', app: 'NameTaken', volume: 'ResizeFailing' }, 'NameTaken'],
    // And before that, what is not ready.
    [{ database: 'IndependentDatabases', app: 'AppUpdating' }, 'AppUpdating'],
  ])('of %j has the reason %s', (findings, reason) => {
    expect(outcome(findings)).toMatchObject(said(reason));
  });

  test('is True with a warning about independent databases', () => {
    expect(bookStoreReasons.IndependentDatabases).toMatchObject({ ready: 'True', event: 'Warning' });
  });
});

test('reasons whose message depends only on objects record an Event for each new message', () => {
  const telling = Object.entries<Reason>(bookStoreController(bookStoreDefaults).reasons).filter(
    ([, { recordsMessageChanges }]) => recordsMessageChanges,
  );
  expect(telling.map(([reason]) => reason)).toEqual(['ClaimBeingDeleted', 'NameTaken', 'InvalidSpec']);
});

describe('the status', () => {
  test('has a condition for each part, and the volumes', () => {
    const claims = [claim('data-shop-db-0', '1Gi'), claim('data-shop-db-1', '1Gi', { capacity: undefined })];
    const { conditions, status } = outcome({ volume: 'ClaimsGrowing' }, { database: { claims } });
    expect(conditions?.map(({ type, status: is }) => [type, is])).toEqual([
      ['DatabaseReady', 'True'],
      ['AppReady', 'True'],
      ['VolumeResizing', 'True'],
    ]);
    const notChecked = outcome({ volume: 'VolumesNotChecked', database: 'Replacing' });
    expect(notChecked.reason).toBe('Replacing');
    expect(notChecked.conditions).toContainEqual({
      type: 'VolumeResizing',
      status: 'Unknown',
      ...said('VolumesNotChecked'),
    });
    expect(status?.volumes).toEqual([{ claim: 'data-shop-db-0', capacity: '1Gi' }, { claim: 'data-shop-db-1' }]);
  });
});

const all = { observedGeneration: 2, replicas: 3, updatedReplicas: 3, availableReplicas: 3 };
const rollout = (status: object | undefined, replicas = 3) =>
  rolloutOf({ metadata: { generation: 2 }, spec: { replicas }, status } as unknown as Deployment);

test('a list names at most five items, and counts the others', () => {
  expect(firstOf('claim', ['a', 'b'])).toEqual(['a', 'b']);
  expect(firstOf('claim', ['a', 'b', 'c', 'd', 'e', 'f', 'g']).slice(4)).toEqual(['e', 'and 2 more claims']);
  expect(firstOf('claim', ['a', 'b'], 1)).toEqual(['a', 'and 1 more claim']);
});

describe('a rollout', () => {
  test('is complete when all desired pods exist, are current and ready, and there are no others', () => {
    expect(rollout(all)).toEqual({ desired: 3, ready: 3, updated: 3, isComplete: true });
    expect(rollout({ observedGeneration: 2 }, 0).isComplete).toBe(true);
  });

  test.each([
    ['was not seen by its controller', { observedGeneration: 1 }],
    ['has an old pod more', { replicas: 4 }],
    ['has a pod of an earlier template', { updatedReplicas: 2 }],
    ['has a pod that is not ready', { availableReplicas: 2 }],
  ])('is not complete when it %s', (_, status) => {
    expect(rollout({ ...all, ...status }).isComplete).toBe(false);
  });

  test('is not complete without a status', () => {
    expect(rollout(undefined)).toEqual({ desired: 3, ready: 0, updated: 0, isComplete: false });
  });
});

test('each reason whose message links to the page has a section there', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/book-store.md'), 'utf8');
  const anchors = headingAnchors(page);
  expect([...documentedReasons].filter((reason) => !anchors.includes(reason.toLowerCase()))).toEqual([]);
});
