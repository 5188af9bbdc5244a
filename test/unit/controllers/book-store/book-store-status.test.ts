import { describe, expect, test } from '@jest/globals';
import { type Finding, readyReport } from '../../../../src/controllers/book-store/book-store-status.ts';
import { findCondition } from '../../../../src/runtime/index.ts';
import { bookStore, claim } from './objects.ts';

const now = new Date('2026-01-02T03:04:05Z');
const said = (reason: string) => ({ reason, message: `words of ${reason}` });
const good = {
  app: said('AppServing'),
  database: said('DatabaseServing'),
  volume: said('VolumesSettled'),
  claims: [],
} as Finding;
const report = (finding: object) => readyReport(bookStore(), { ...good, ...finding }, now);

describe('Ready', () => {
  test('is True where every part is', () => {
    expect(report({})).toMatchObject({ reason: 'AllReady', isWarning: false });
  });

  test('has the reason of the part that is not', () => {
    expect(report({ app: said('AppUpdating') })).toMatchObject({ reason: 'AppUpdating', isWarning: false });
    expect(report({ volume: said('ClaimsGrowing') })).toMatchObject({
      reason: 'ClaimsGrowing',
      message: 'words of ClaimsGrowing',
    });
  });

  test('has that first which a person should look at', () => {
    const finding = { database: said('DatabaseUpdating'), app: said('AppUpdating'), volume: said('ResizeFailing') };
    expect(report(finding)).toMatchObject({ reason: 'ResizeFailing', isWarning: true });
    expect(report({ ...finding, app: said('NameTaken') })).toMatchObject({ reason: 'NameTaken', isWarning: true });
  });

  test.each([
    [{ database: said('ClaimBeingDeleted') }, 'ClaimBeingDeleted'],
    [{ volume: said('ResizeRefused') }, 'ResizeRefused'],
  ])('is False with a warning where a person has to do something: %j', (finding, reason) => {
    const { status, ...summary } = report(finding);
    expect(summary).toMatchObject({ reason, isWarning: true });
    expect(findCondition(status.conditions ?? [], 'Ready')?.status).toBe('False');
  });

  test('is True with a warning of independent databases', () => {
    const { reason, isWarning, status } = report({ database: said('IndependentDatabases') });
    expect({ reason, isWarning }).toEqual({ reason: 'IndependentDatabases', isWarning: true });
    expect(findCondition(status.conditions ?? [], 'Ready')?.status).toBe('True');
  });
});

describe('the status', () => {
  test('has a condition for each part, and the volumes', () => {
    const claims = [claim('data-shop-db-0', '1Gi'), claim('data-shop-db-1', '1Gi', { capacity: undefined })];
    const { status } = report({ claims });
    expect(status.conditions?.map(({ type, status: is }) => [type, is])).toEqual([
      ['DatabaseReady', 'True'],
      ['AppReady', 'True'],
      ['VolumeResizing', 'False'],
      ['Ready', 'True'],
    ]);
    expect(status.volumes).toEqual([{ claim: 'data-shop-db-0', capacity: '1Gi' }, { claim: 'data-shop-db-1' }]);
  });
});
