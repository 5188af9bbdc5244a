import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';

const read = (path: string): unknown => JSON.parse(readFileSync(join(import.meta.dirname, '../..', path), 'utf8'));

test('package-lock.json has a hash for each package, also for those of other platforms', () => {
  const { packages } = read('package-lock.json') as {
    readonly packages: Readonly<Record<string, { readonly integrity?: string; readonly link?: boolean }>>;
  };
  const installed = Object.entries(packages).filter(([path, { link }]) => path.includes('node_modules/') && !link);
  expect(installed.length).toBeGreaterThan(100);
  expect(installed.filter(([, { integrity }]) => !integrity?.startsWith('sha512-')).map(([path]) => path)).toEqual([]);
});

test('Renovate proposes no version in its first days, in which most malicious ones are found', () => {
  expect(read('.github/renovate.json')).toMatchObject({
    minimumReleaseAge: '7 days',
    internalChecksFilter: 'strict',
  });
});
