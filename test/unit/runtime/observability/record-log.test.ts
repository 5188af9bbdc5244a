import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type LogEntry, RecordLog } from '../../../../src/runtime/observability/record-log.ts';
import type { Linked } from '../../../../src/runtime/queue/linked-list.ts';

class Entry implements LogEntry, Linked<Entry> {
  readonly name: number;
  offset = 0;
  length = 0;
  readonly heapBytes = 30;
  isPinned = false;
  previous: Entry | undefined;
  next: Entry | undefined;

  constructor(name: number) {
    this.name = name;
  }
}

const names = fc.integer({ min: 0, max: 9 });
const step = fc.oneof(
  fc.record({ do: fc.constant('write' as const), name: names, bytes: fc.integer({ min: 0, max: 120 }) }),
  fc.record({ do: fc.constant('remove' as const), name: names }),
  fc.record({ do: fc.constant('pin' as const), name: names, isPinned: fc.boolean() }),
);

test('every entry that was not dropped has the bytes that were written last, and the limits hold', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      // 625 bytes in the log, and 12 entries by their bytes in the heap.
      const log = new RecordLog<Entry>(1000, (entry) => {
        expect(entry.isPinned).toBe(false);
        expect([...entries.values()].filter(({ isPinned }) => !isPinned)[0]).toBe(entry);
        entries.delete(entry.name);
        contents.delete(entry.name);
      });
      /** Written least recently first, as far as the log has them. */
      const entries = new Map<number, Entry>();
      const contents = new Map<number, Buffer>();
      let written = 0;
      for (const each of steps) {
        let entry = entries.get(each.name);
        if (each.do === 'write') {
          if (entry === undefined) {
            entry = new Entry(each.name);
            entries.set(each.name, entry);
            log.add(entry);
          }
          written += 1;
          const content = Buffer.alloc(each.bytes, written);
          const { length } = entry;
          const former = contents.get(each.name);
          let hasRoom = false;
          const { isPinned } = entry;
          entry.isPinned = true;
          log.write(entry, each.bytes, (buffer, at) => {
            hasRoom = true;
            expect(log.bytesOf(entry as Entry).equals(former ?? Buffer.alloc(length))).toBe(true);
            return at + content.copy(buffer, at);
          });
          entry.isPinned = isPinned;
          expect(entries.has(each.name)).toBe(true);
          entries.delete(each.name);
          entries.set(each.name, entry);
          contents.set(each.name, hasRoom ? content : Buffer.alloc(0));
        } else if (each.do === 'pin') {
          if (entry !== undefined) entry.isPinned = each.isPinned;
        } else if (entry !== undefined) {
          log.remove(entry);
          entries.delete(each.name);
          contents.delete(each.name);
        }
        for (const [name, { offset, length }] of entries)
          expect(
            log
              .bytesOf({ offset, length, heapBytes: 0, isPinned: false })
              .equals(contents.get(name) ?? Buffer.alloc(0)),
          ).toBe(true);
        const live = [...contents.values()].reduce((bytes, content) => bytes + content.length, 0);
        expect(log.bytes).toBe(live + 30 * entries.size);
        expect(live).toBeLessThanOrEqual(625);
      }
    }),
    { numRuns: 300 },
  );
});
