import { type Linked, LinkedList } from '../queue/linked-list.ts';

/** One owner's part of a {@link RecordLog}. */
export interface LogEntry {
  /** The position of its bytes in the buffer. Only the log changes `offset` and `length`. */
  offset: number;
  length: number;
  /** An estimate of how much V8's heap grows with the entry. Its bytes in the log are outside of the heap. */
  readonly heapBytes: number;
  /** The log never drops a pinned entry. */
  readonly isPinned: boolean;
}

/** The bytes of a {@link RecordLog}: for texts, and for numbers. */
export interface LogBytes {
  readonly buffer: Buffer;
  readonly view: DataView;
}

/** The share of the limit that the entries may take in V8's heap; the buffer has the rest. With 3 MB: 1,950 keys of 800 bytes. */
const heapShare = 1 / 2;

/** The log is compacted when it is full. This share of it is free afterwards, unless pinned entries need it. */
const freedShare = 1 / 4;

/**
 * Keeps bytes of many owners in one buffer. Those that were written least recently are dropped first.
 *
 * The buffer is outside of V8's heap, whose peak grows by more than what lives in it: the more lives, the later V8 collects garbage.
 */
export class RecordLog<Entry extends LogEntry & Linked<Entry>> {
  readonly #buffer: Buffer;
  readonly #bytes: LogBytes;
  readonly #maxHeapBytes: number;
  readonly #onDropped: (entry: Entry) => void;
  /** In the order of their last writes, which is that of their offsets. */
  readonly #entries = new LinkedList<Entry>();
  /** Where the next write begins. */
  #end = 0;
  /** The bytes in the buffer that belong to entries. The others are what entries had before they were written again. */
  #liveBytes = 0;
  #heapBytes = 0;

  /** @param onDropped an entry was dropped to make room for others */
  constructor(maxBytes: number, onDropped: (entry: Entry) => void) {
    this.#maxHeapBytes = maxBytes * heapShare;
    const bytes = new ArrayBuffer(maxBytes - this.#maxHeapBytes);
    this.#buffer = Buffer.from(bytes);
    this.#bytes = { buffer: this.#buffer, view: new DataView(bytes) };
    this.#onDropped = onDropped;
  }

  /** What the entries that are kept need, of the limit. */
  get bytes(): number {
    return this.#liveBytes + this.#heapBytes;
  }

  /** Whether an entry can be added and written without others being dropped. @param maxBytes as in {@link write} */
  hasRoomFor({ heapBytes }: Entry, maxBytes: number): boolean {
    return this.#heapBytes + heapBytes <= this.#maxHeapBytes && this.#end + maxBytes <= this.#buffer.length;
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
   * Writes the bytes of an entry, which becomes the one that was written last. If there is no room for them, nothing changes.
   *
   * @param maxBytes how many bytes it needs at most
   * @param write writes them from `at` on; the entry's former bytes are still there. Returns where they end.
   */
  write(entry: Entry, maxBytes: number, write: (bytes: LogBytes, at: number) => number): void {
    if (this.#end + maxBytes > this.#buffer.length && !this.#compact(entry, maxBytes)) return;
    const end = write(this.#bytes, this.#end);
    this.#liveBytes += end - this.#end - entry.length;
    entry.offset = this.#end;
    entry.length = end - this.#end;
    this.#end = end;
    this.#entries.remove(entry);
    this.#entries.push(entry);
  }

  /** Returns whether there is room. If there can be none, nothing is dropped. */
  #compact(writing: Entry, neededBytes: number): boolean {
    let keptBytes = 0;
    for (let entry = this.#entries.first; entry !== undefined; entry = entry.next)
      if (entry.isPinned || entry === writing) keptBytes += entry.length;
    if (keptBytes + neededBytes > this.#buffer.length) return false;
    const limit = this.#buffer.length * (1 - freedShare);
    while (this.#liveBytes + neededBytes > limit && this.#dropOldest(writing));
    this.#end = 0;
    for (let entry = this.#entries.first; entry !== undefined; entry = entry.next) {
      const { offset, length } = entry;
      this.#buffer.copyWithin(this.#end, offset, offset + length);
      entry.offset = this.#end;
      this.#end += length;
    }
    return true;
  }

  /** Returns false if all others are pinned. */
  #dropOldest(except: Entry): boolean {
    let oldest = this.#entries.first;
    while (oldest !== undefined && (oldest.isPinned || oldest === except)) oldest = oldest.next;
    if (oldest === undefined) return false;
    this.remove(oldest);
    this.#onDropped(oldest);
    return true;
  }
}
