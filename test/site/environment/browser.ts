import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { type Browser, launch } from 'puppeteer-core';
import { wrapToDieWithParent } from '../../../testkit/die-with-parent.ts';
import { makeRunFolder } from '../../../testkit/run-folder.ts';
import { ensureDebianPackages } from '../../../tools/debian.ts';

/** Where Debian's Chromium is, and the browser of GitHub's runners, for which Ubuntu has no package. */
const programs = ['/usr/bin/chromium', '/usr/bin/google-chrome'];

export interface StartedBrowser extends AsyncDisposable {
  readonly browser: Browser;
}

/** Starts a real Chromium without a window, which ends with this process. Installs it if it is missing. */
export async function startBrowser(): Promise<StartedBrowser> {
  if (!programs.some((path) => existsSync(path))) await ensureDebianPackages(['chromium']);
  const program = programs.find((path) => existsSync(path));
  if (program === undefined) throw new Error(`none of ${programs.join(', ')} exists`);
  const folder = await makeRunFolder('browser');
  const wrappers = await wrapToDieWithParent(folder, { chromium: program });
  const browser = await launch({
    executablePath: `${wrappers}/chromium`,
    userDataDir: `${folder}/profile`,
    // Puppeteer's handler of SIGTERM would keep this process alive. The kernel ends the browser.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    // A page of the API is large, and the machine may be busy.
    protocolTimeout: 120_000,
    args: [
      '--no-sandbox', // Chromium refuses to run as root with its sandbox
      '--disable-gpu',
      '--no-first-run',
      // No traffic of the browser's own, and none of a page to another host.
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
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
      await rm(folder, { recursive: true, maxRetries: 5 });
    },
  };
}
