import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { AxeResults, RunOptions } from 'axe-core';
import type { Browser, Page } from 'puppeteer-core';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { inTime } from '../../../testkit/in-time.ts';

export interface Visit {
  readonly title: string;
  /** The targets of the page's links, absolute. */
  readonly links: readonly string[];
  /** What a link's anchor may name. */
  readonly ids: readonly string[];
  /** What is wrong with the page, in words. */
  readonly problems: readonly string[];
}

/** How many pages are open at a time. */
const tabs = 3;

export const phone = { width: 360, height: 740 };
export const desktop = { width: 1280, height: 900 };

/** A new tab that collects errors of scripts, failed requests and requests to other hosts. */
export async function openTab(browser: Browser): Promise<{ readonly page: Page; readonly problems: string[] }> {
  const page = await browser.newPage();
  page.setDefaultTimeout(30_000);
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

/** Sets the reader's preferences. Without motion, nothing is measured or clicked while it moves or fades. */
export async function setColors(page: Page, colors: 'light' | 'dark'): Promise<void> {
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: colors },
    { name: 'prefers-reduced-motion', value: 'reduce' },
  ]);
}

/** Visits pages, a few at a time. Returns the visits in the order of the addresses. */
export async function visitAll(browser: Browser, addresses: readonly string[]): Promise<readonly Visit[]> {
  const visits: Visit[] = [];
  const visitOne = async ([index, address]: [number, string]): Promise<void> => {
    visits[index] = await visit(browser, address);
  };
  await forEachConcurrently(addresses.entries(), visitOne, tabs);
  return visits;
}

/**
 * Opens a page as a reader does: on a phone, on a desktop in light and in dark. A step that fails, or that is not done
 * after 90 s, is a problem of the page and ends its visit.
 */
async function visit(browser: Browser, address: string): Promise<Visit> {
  const { page, problems } = await openTab(browser);
  const found = { title: address, links: [] as readonly string[], ids: [] as readonly string[] };
  const steps: Readonly<Record<string, () => Promise<void>>> = {
    'opens on a phone': async () => {
      await setColors(page, 'light');
      await page.setViewport(phone);
      await page.goto(address, { waitUntil: 'networkidle0' });
    },
    'draws its diagrams': async () => {
      // The library of a diagram is loaded after the page.
      await page.waitForFunction(
        "[...document.querySelectorAll('.diagram')].every((one) => one.querySelector('svg'))",
        // Looks at intervals: a tab behind another draws no frames.
        { polling: 100 },
      );
    },
    'fits a phone': async () => {
      problems.push(...(await overflowing(page)).map((element) => `wider than a phone: ${element}`));
    },
    'loads its pictures': async () => {
      problems.push(...(await brokenPictures(page)).map((source) => `no picture: ${source}`));
    },
    'fits a desktop': async () => {
      await page.setViewport(desktop);
      problems.push(...(await overflowing(page)).map((element) => `wider than the window: ${element}`));
    },
    'is accessible in light': async () => {
      problems.push(...(await violations(page, {})).map((one) => `in light: ${one}`));
    },
    'is accessible in dark': async () => {
      // As the site's switch does. A tab behind another would not be told of the system's new colors.
      await page.evaluate("document.documentElement.classList.add('dark')");
      const colors = { runOnly: ['color-contrast'] };
      problems.push(...(await violations(page, colors)).map((one) => `in dark: ${one}`));
    },
    'has a title, links and anchors': async () => {
      found.title = await page.title();
      found.links = (await page.evaluate(
        "[...document.querySelectorAll('a[href]')].map(({ href }) => href)",
      )) as string[];
      found.ids = (await page.evaluate("[...document.querySelectorAll('[id]')].map(({ id }) => id)")) as string[];
    },
  };
  try {
    for (const [what, run] of Object.entries(steps)) {
      try {
        await inTime(`${address} ${what}`, run());
      } catch (error) {
        problems.push(`${what}: ${error}`);
        break;
      }
    }
  } finally {
    await page.close();
  }
  return { ...found, problems };
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
