import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, launch } from 'puppeteer-core';
import { ensureDebianPackages } from '../../../tools/debian.ts';

/** Where Debian's Chromium is, and the browser of GitHub's runners, for which Ubuntu has no package. */
const programs = ['/usr/bin/chromium', '/usr/bin/google-chrome'];

export interface StartedBrowser extends AsyncDisposable {
  readonly browser: Browser;
}

/** Starts a real Chromium without a window. Installs it if it is missing. */
export async function startBrowser(): Promise<StartedBrowser> {
  if (!programs.some((path) => existsSync(path))) await ensureDebianPackages(['chromium']);
  const executablePath = programs.find((path) => existsSync(path));
  if (executablePath === undefined) throw new Error(`none of ${programs.join(', ')} exists`);
  const userDataDir = await mkdtemp(join(tmpdir(), 'echoperator-browser-'));
  const browser = await launch({
    executablePath,
    userDataDir,
    // Pages of the API are large, and the machine may be busy.
    protocolTimeout: 600_000,
    args: [
      '--no-sandbox', // Chromium refuses to run as root with its sandbox
      '--disable-gpu',
      '--no-first-run',
      // No traffic of the browser's own.
      '--disable-quic',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
  return {
    browser,
    [Symbol.asyncDispose]: async () => {
      await browser.close();
      await rm(userDataDir, { recursive: true, maxRetries: 5 });
    },
  };
}
