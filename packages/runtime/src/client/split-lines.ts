const lineFeed = 0x0a;

/**
 * Splits a byte stream into lines. Yields one list for each chunk, with the lines that the chunk completes; the list
 * may be empty. An incomplete line at the end of the stream is dropped.
 */
export async function* splitLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<readonly string[], void, undefined> {
  let pending: Buffer[] = [];
  for await (const chunk of chunks) {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
      if (pending.length === 0) {
        lines.push(chunk.toString('utf8', start, end));
      } else {
        pending.push(chunk.subarray(start, end));
        lines.push(Buffer.concat(pending).toString('utf8'));
        pending = [];
      }
      start = end + 1;
    }
    if (start < chunk.length) pending.push(chunk.subarray(start));
    yield lines;
  }
}
