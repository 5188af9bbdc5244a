/** Preloaded into an operator that runs on Node: prints the longest pause of its event loop when it ends. */
import { writeSync } from 'node:fs';

const everyMs = 10;

let longestMs = 0;
let lastMs = performance.now();
setInterval(() => {
  const nowMs = performance.now();
  longestMs = Math.max(longestMs, nowMs - lastMs - everyMs);
  lastMs = nowMs;
}, everyMs).unref();

process.on('exit', () => {
  // The program's standard error ends with the process, so an asynchronous write would be lost.
  writeSync(2, `longest pause: ${longestMs.toFixed(1)} ms\n`);
});
