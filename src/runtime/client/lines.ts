const lineFeed = 0x0a;

/**
 * Splits a byte stream into lines: a list of them for each piece of the stream that came, empty if the piece ended none.
 * What follows the last line feed is half a line and is dropped, not yielded.
 */
export async function* lines(chunks: AsyncIterable<Buffer>): AsyncGenerator<readonly string[], void, undefined> {
  let pending: Buffer[] = [];
  for await (const chunk of chunks) {
    const whole: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
      if (pending.length === 0) {
        whole.push(chunk.toString('utf8', start, end));
      } else {
        pending.push(chunk.subarray(start, end));
        whole.push(Buffer.concat(pending).toString('utf8'));
        pending = [];
      }
      start = end + 1;
    }
    if (start < chunk.length) pending.push(chunk.subarray(start));
    yield whole;
  }
}
