import { type Linked, LinkedList } from '../queue/linked-list.ts';

/** What belongs to one owner of a {@link RecordLog}. */
export interface LogEntry {
  /** Where its bytes are. Only the log may change both. */
  offset: number;
  length: number;
  /** An estimate of by how much V8's heap grows with it, beside its bytes in the log. */
  readonly heapBytes: number;
  /** It is not dropped while this is true. */
  readonly isPinned: boolean;
}

/** The share of the limit that is for the entries in V8's heap. The bytes in the log have the rest. */
const heapShare = 3 / 8;

/** The log is compacted when it is full. At least this share of it is free afterwards. */
const freedShare = 1 / 4;

/**
 * Keeps bytes of many owners in one buffer; those that were written least recently are dropped first.
 *
 * The buffer is not in V8's heap: with each byte that lives there the heap's peak grows by two to four, since V8 collects the more rarely
 * the more lives. Pages of the buffer that were never written take no memory.
 */
export class RecordLog<Entry extends LogEntry & Linked<Entry>> {
  readonly #buffer: Buffer;
  readonly #maxHeapBytes: number;
  readonly #onDropped: (entry: Entry) => void;
  /** In the order of their last writes, which is that of their offsets. */
  readonly #entries = new LinkedList<Entry>();
  /** Where the next write begins. */
  #end = 0;
  /** Without the former bytes of entries that were written again or removed. */
  #liveBytes = 0;
  #heapBytes = 0;

  /** @param onDropped an entry was dropped to make room for others */
  constructor(maxBytes: number, onDropped: (entry: Entry) => void) {
    this.#maxHeapBytes = maxBytes * heapShare;
    this.#buffer = Buffer.alloc(maxBytes - this.#maxHeapBytes);
    this.#onDropped = onDropped;
  }

  /** An estimate of the memory that the entries take. */
  get bytes(): number {
    return this.#liveBytes + this.#heapBytes;
  }

  /** Adds an entry, which has no bytes yet. Others are dropped if it needs their room. */
  add(entry: Entry): void {
    this.#entries.push(entry);
    this.#heapBytes += entry.heapBytes;
    while (this.#heapBytes > this.#maxHeapBytes && this.#dropOldest(entry));
  }

  remove(entry: Entry): void {
    this.#entries.remove(entry);
    this.#heapBytes -= entry.heapBytes;
    this.#liveBytes -= entry.length;
  }

  /** The bytes of an entry: a view, until the next write. */
  bytesOf({ offset, length }: LogEntry): Buffer {
    return this.#buffer.subarray(offset, offset + length);
  }

  /**
   * Writes the bytes of an entry, which becomes the one that was written last. If there is no room for them, it has none afterwards.
   *
   * @param maxBytes how many bytes it needs at most
   * @param write writes them from `at` on; the entry's former bytes are still there. Returns where they end.
   */
  write(entry: Entry, maxBytes: number, write: (buffer: Buffer, at: number) => number): void {
    const hasRoom = this.#end + maxBytes <= this.#buffer.length || this.#compact(entry, maxBytes);
    const end = hasRoom ? write(this.#buffer, this.#end) : this.#end;
    this.#liveBytes += end - this.#end - entry.length;
    entry.offset = this.#end;
    entry.length = end - this.#end;
    this.#end = end;
    this.#entries.remove(entry);
    this.#entries.push(entry);
  }

  /** Returns whether there is room. */
  #compact(writing: Entry, neededBytes: number): boolean {
    const limit = this.#buffer.length * (1 - freedShare);
    while (this.#liveBytes + neededBytes > limit && this.#dropOldest(writing));
    this.#end = 0;
    for (let entry = this.#entries.first; entry !== undefined; entry = entry.next) {
      const { offset, length } = entry;
      this.#buffer.copyWithin(this.#end, offset, offset + length);
      entry.offset = this.#end;
      this.#end += length;
    }
    return this.#end + neededBytes <= this.#buffer.length;
  }

  /** Returns false if there is none but this one and those that are pinned. */
  #dropOldest(except: Entry): boolean {
    let oldest = this.#entries.first;
    while (oldest !== undefined && (oldest.isPinned || oldest === except)) oldest = oldest.next;
    if (oldest === undefined) return false;
    this.remove(oldest);
    this.#onDropped(oldest);
    return true;
  }
}
