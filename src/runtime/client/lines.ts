const lineFeed = 0x0a;

/** Splits a byte stream into lines. What follows the last line feed is half a line and is dropped, not yielded. */
export async function* lines(chunks: AsyncIterable<Buffer>): AsyncGenerator<string, void, undefined> {
  let pending: Buffer[] = [];
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
      const piece = chunk.subarray(start, end);
      yield pending.length === 0 ? piece.toString('utf8') : Buffer.concat([...pending, piece]).toString('utf8');
      pending = [];
      start = end + 1;
    }
    if (start < chunk.length) pending.push(chunk.subarray(start));
  }
}
