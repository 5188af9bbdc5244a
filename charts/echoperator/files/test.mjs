// Run by `helm test`: every URL in the arguments must answer with status 200 and a body. Failed requests are retried, because
// a release that was installed without `--wait` may still be starting.
const timeoutMs = 60_000;
const retryDelayMs = 500;

async function request(url) {
  const answer = await fetch(url, { signal: AbortSignal.timeout(5_000) });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`answered ${answer.status}: ${text.trim()}`);
  if (text === '') throw new Error('answered 200 with an empty body');
  return text;
}

async function requestUntilAnswered(url, deadline) {
  for (;;) {
    try {
      return await request(url);
    } catch (error) {
      if (Date.now() >= deadline) throw new Error(`${url}: ${[error.message, error.cause?.message].join(' ')}`);
      await new Promise((resolve) => setTimeout(resolve, retryDelayMs));
    }
  }
}

const deadline = Date.now() + timeoutMs;
for (const url of process.argv.slice(1)) {
  const text = await requestUntilAnswered(url, deadline);
  console.log(`${url}: 200, ${Buffer.byteLength(text)} bytes`);
}
