import type { PersistentVolumeClaim } from '@echoperator/runtime/kinds';
import type { BookStore } from '../../../../src/kinds/book-store/kind.ts';

const created = { resourceVersion: '1', creationTimestamp: '2026-01-02T03:04:05Z' } as const;

/** A BookStore as the API server stores it. */
export const bookStore = (
  { bookApp, bookDB }: { readonly bookApp?: object; readonly bookDB?: object } = {},
  name = 'shop',
): BookStore => ({
  metadata: { name, namespace: 'default', uid: 'uid-of-shop', generation: 1, ...created },
  spec: {
    bookApp: { repository: 'app', ...bookApp },
    bookDB: { repository: 'db', dbSize: '1Gi', ...bookDB },
  },
});

/** A claim of its database, with a volume of its size. */
export function claim(
  name: string,
  storage: string,
  status: object = {},
  metadata: object = {},
): PersistentVolumeClaim {
  return {
    metadata: { name, namespace: 'default', uid: `uid-of-${name}`, ...created, ...metadata },
    spec: { resources: { requests: { storage } } },
    status: { phase: 'Bound', capacity: { storage }, ...status },
  };
}

/** The status of a claim whose volume has grown, and whose file system has not. */
export const pendingAt = (lastTransitionTime: string | undefined) => ({
  conditions: [
    { type: 'Resizing', status: 'True' },
    { type: 'FileSystemResizePending', status: 'True', ...(lastTransitionTime && { lastTransitionTime }) },
  ],
});

/** The end of a message that links to a section of the kind's page. */
export const see = (section: string): string =>
  `see https://github.com/echoperator/echoperator/blob/main/docs/book-store.md#${section}`;
