import type { BookStore } from '../../api/index.ts';

/**
 * What a BookStore lacks that nothing can be made without, if anything: one that was stored before its kind had a schema
 * may lack what every new one has.
 */
export function problemOf(store: BookStore): string | undefined {
  const { bookApp, bookDB }: Partial<BookStore['spec']> = store.spec ?? {};
  const needed = {
    'bookApp.repository': bookApp?.repository,
    'bookDB.repository': bookDB?.repository,
    'bookDB.dbSize': bookDB?.dbSize,
  };
  const missing = Object.entries(needed).filter(([, value]) => value === undefined || value === '');
  return missing.length === 0 ? undefined : `the spec lacks ${missing.map(([field]) => field).join(', ')}`;
}
