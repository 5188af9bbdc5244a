/** Starts the browser, opens a tab, reports it on standard output, and runs until it is killed. */
import { startBrowser } from './browser.ts';

const { browser } = await startBrowser();
await browser.newPage();
console.log('started');
