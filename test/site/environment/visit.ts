import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { AxeResults, RunOptions } from 'axe-core';
import type { Browser, Page } from 'puppeteer-core';

export interface Visit {
  readonly title: string;
  /** The targets of the page's links, absolute. */
  readonly links: readonly string[];
  /** What a link's anchor may name. */
  readonly ids: readonly string[];
  /** What is wrong with the page, in words. */
  readonly problems: readonly string[];
}

const phone = { width: 360, height: 740 };
export const desktop = { width: 1280, height: 900 };

/** A new tab that collects errors of scripts, failed requests and requests to other hosts. */
export async function openTab(browser: Browser): Promise<{ readonly page: Page; readonly problems: string[] }> {
  const page = await browser.newPage();
  page.setDefaultTimeout(300_000);
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(`script: ${error}`));
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (protocol.startsWith('http') && hostname !== '127.0.0.1') problems.push(`request to ${request.url()}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400) problems.push(`${response.status()} for ${response.url()}`);
  });
  return { page, problems };
}

/** Opens a page as a reader does: on a phone, on a desktop in light and in dark. */
export async function visit(browser: Browser, address: string): Promise<Visit> {
  const { page, problems } = await openTab(browser);
  try {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }]);
    await page.setViewport(phone);
    await page.goto(address, { waitUntil: 'networkidle0' });
    // The library of a diagram is loaded after the page.
    await page.waitForFunction("[...document.querySelectorAll('.diagram')].every((one) => one.querySelector('svg'))");
    problems.push(...(await overflowing(page)).map((element) => `wider than a phone: ${element}`));
    problems.push(...(await brokenPictures(page)).map((source) => `no picture: ${source}`));
    await page.setViewport(desktop);
    problems.push(...(await overflowing(page)).map((element) => `wider than the window: ${element}`));
    problems.push(...(await violations(page, {})).map((one) => `in light: ${one}`));
    // Colors that are still changing would be measured.
    await page.addStyleTag({ content: '* { transition: none !important; }' });
    await page.evaluate("document.documentElement.classList.add('dark')");
    const colors = { runOnly: ['color-contrast'] };
    problems.push(...(await violations(page, colors)).map((one) => `in dark: ${one}`));
    const title = await page.title();
    const links = (await page.evaluate(
      "[...document.querySelectorAll('a[href]')].map(({ href }) => href)",
    )) as string[];
    const ids = (await page.evaluate("[...document.querySelectorAll('[id]')].map(({ id }) => id)")) as string[];
    return { title, links, ids, problems };
  } finally {
    await page.close();
  }
}

/** Returns the elements that make the page scroll sideways. A box that scrolls its own content is none. */
async function overflowing(page: Page): Promise<readonly string[]> {
  return (await page.evaluate(`(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const isWide = (element) => element.getBoundingClientRect().right > width + 1;
    const scrolls = (element) => /auto|scroll|hidden|clip/.test(getComputedStyle(element).overflowX);
    const isInBox = (element) => element !== null && (scrolls(element) || isInBox(element.parentElement));
    const wide = [...document.body.querySelectorAll('*')].filter(
      (element) => isWide(element) && !isInBox(element.parentElement),
    );
    return ['scroll width ' + document.documentElement.scrollWidth, ...wide.slice(0, 3).map(
      (element) => element.tagName + '.' + element.className + ' ' + element.textContent.slice(0, 60),
    )];
  })()`)) as readonly string[];
}

async function brokenPictures(page: Page): Promise<readonly string[]> {
  return (await page.evaluate(`Promise.all([...document.images].map(async (image) => {
    image.loading = 'eager';
    await image.decode().catch(() => {});
    return image.naturalWidth === 0 ? image.src : '';
  })).then((sources) => sources.filter((source) => source !== ''))`)) as readonly string[];
}

const axe = await readFile(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');

async function violations(page: Page, options: RunOptions): Promise<readonly string[]> {
  await page.evaluate(axe);
  const result = (await page.evaluate(
    `axe.run(document, ${JSON.stringify({ ...options, resultTypes: ['violations'] })})`,
  )) as AxeResults;
  return result.violations.flatMap(({ id, nodes }) =>
    nodes.slice(0, 3).map(({ target, html }) => `${id}: ${target} ${html.slice(0, 160)}`),
  );
}
