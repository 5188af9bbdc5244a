// `helm test`: every address given has to answer with 200 and a text. Tried again for a while: a release that was
// installed without `--wait` may still be starting.
const patienceMs = 60_000;
const pauseMs = 500;

async function ask(address) {
  const answer = await fetch(address, { signal: AbortSignal.timeout(5_000) });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`answered ${answer.status}: ${text.trim()}`);
  if (text === '') throw new Error('answered 200, but nothing more');
  return text;
}

async function untilAnswered(address, deadline) {
  for (;;) {
    try {
      return await ask(address);
    } catch (error) {
      if (Date.now() >= deadline) throw new Error(`${address}: ${[error.message, error.cause?.message].join(' ')}`);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

const deadline = Date.now() + patienceMs;
for (const address of process.argv.slice(1)) {
  const text = await untilAnswered(address, deadline);
  console.log(`${address}: 200, ${Buffer.byteLength(text)} bytes`);
}
