import { expect, test } from '@jest/globals';
import { SecretValues } from '../../../../packages/runtime/src/plan/secret-values.ts';

const metadata = { namespace: 'shop', name: 'a', uid: '1', resourceVersion: '1', creationTimestamp: '' };
const secret = (stringData: Record<string, string>) => ({ apiVersion: 'v1', kind: 'Secret', metadata, stringData });

test('a value of a Secret is found in other texts, and hidden', () => {
  const values = new SecretValues();
  values.add(secret({ password: 'correct horse' }));
  expect(values.isIn({ url: ['postgres://app:correct horse@db'] })).toBe(true);
  expect(values.isIn({ url: ['postgres://app@db'] })).toBe(false);
  expect(values.hideIn('no connection to app:correct horse@db')).toBe('no connection to app:(a value of a Secret)@db');
});

test('Secrets of very many values hide everything, and take no longer', () => {
  const values = new SecretValues();
  values.add(
    secret(Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [index, `${index}`.padStart(50, 'a')]))),
  );
  const text = 'a'.repeat(1_000_000);
  const startMs = performance.now();
  expect(values.isIn(text)).toBe(true);
  expect(values.hideIn(text)).toBe('(a value of a Secret)');
  expect(performance.now() - startMs).toBeLessThan(1000);
});
