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

const names = fc.integer({ min: 0, max: 19 });
const step = fc.oneof(
  fc.record({
    do: fc.constant('write' as const),
    name: names,
    bytes: fc.integer({ min: 0, max: 120 }),
    unused: fc.integer({ min: 0, max: 50 }),
  }),
  fc.record({ do: fc.constant('remove' as const), name: names }),
  fc.record({ do: fc.constant('pin' as const), name: names, isPinned: fc.boolean() }),
);

const maxHeapBytes = 500;
const bufferBytes = 500;

test('every entry that was not dropped has the bytes that were written last, and the limits hold', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      /** Written least recently first. */
      const contents = new Map<Entry, Buffer>();
      let current: Entry | undefined;
      const log = new RecordLog<Entry>(maxHeapBytes + bufferBytes, (entry) => {
        const [oldest] = [...contents.keys()].filter((each) => !each.isPinned && each !== current);
        expect(entry).toBe(oldest);
        contents.delete(entry);
      });
      const isAllPinned = () => [...contents.keys()].every((each) => each.isPinned || each === current);
      for (const [index, each] of steps.entries()) {
        current = [...contents.keys()].find(({ name }) => name === each.name);
        if (each.do === 'write') {
          if (current === undefined) {
            current = new Entry(each.name);
            contents.set(current, Buffer.alloc(0));
            log.add(current);
            expect(contents.size * current.heapBytes <= maxHeapBytes || isAllPinned()).toBe(true);
          }
          const entry = current;
          const content = Buffer.alloc(each.bytes, index);
          let hasRoom = false;
          log.write(entry, each.bytes + each.unused, ({ buffer }, at) => {
            hasRoom = true;
            expect(log.bytesOf(entry)).toEqual(contents.get(entry));
            return at + content.copy(buffer, at);
          });
          if (hasRoom) {
            contents.delete(entry);
            contents.set(entry, content);
          } else expect(lengthOf(contents.keys()) + each.bytes + each.unused).toBeGreaterThan(bufferBytes);
        } else if (current !== undefined) {
          if (each.do === 'pin') current.isPinned = each.isPinned;
          else {
            log.remove(current);
            contents.delete(current);
          }
        }
        for (const [entry, content] of contents) expect(log.bytesOf(entry).equals(content)).toBe(true);
        expect(log.bytes).toBe(lengthOf(contents.keys()) + 30 * contents.size);
        expect(lengthOf(contents.keys())).toBeLessThanOrEqual(bufferBytes);
      }
    }),
    { numRuns: 300 },
  );
});

const lengthOf = (entries: Iterable<Entry>): number => [...entries].reduce((bytes, { length }) => bytes + length, 0);
