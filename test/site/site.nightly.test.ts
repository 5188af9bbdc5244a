import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import type { Page, Viewport } from 'puppeteer-core';
import { base, htmlFolder, repositoryAddress } from '../../site/folders.ts';
import { type SiteServer, serveSite } from '../../site/server.ts';
import { headingAnchors } from '../../testkit/markdown.ts';
import { type StartedBrowser, startBrowser } from './environment/browser.ts';
import { desktop, openTab, phone, setColors, type Visit, visitAll } from './environment/visit.ts';

const root = join(import.meta.dirname, '../..');

let server: SiteServer;
let started: StartedBrowser;
beforeAll(async () => {
  // SITE_IS_BUILT=1 repeats the tests with the same site.
  if (process.env.SITE_IS_BUILT === undefined) await execa(process.execPath, ['site/build.ts'], { cwd: root });
  server = await serveSite();
  started = await startBrowser();
});
afterAll(async () => {
  await started?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** Runs a reader's steps in a new tab. Fails if a script or a request of the page failed. */
async function inTab(
  path: string,
  read: (page: Page) => Promise<void>,
  { viewport = desktop, colors = 'light' }: { viewport?: Viewport; colors?: 'light' | 'dark' } = {},
): Promise<void> {
  const { page, problems } = await openTab(started.browser);
  try {
    await page.setViewport(viewport);
    await setColors(page, colors);
    await page.goto(`${server.address}${path}`, { waitUntil: 'networkidle0' });
    await read(page);
    expect(problems).toEqual([]);
  } finally {
    await page.close();
  }
}

const texts = async (page: Page, selector: string): Promise<readonly string[]> =>
  page.$$eval(selector, (elements) => elements.map(({ textContent }) => textContent?.trim() ?? ''));

/** Waits until the heading of the page is `text`. */
const heading = async (page: Page, text: string): Promise<void> => {
  await page.waitForFunction(`document.querySelector('h1')?.textContent.includes(${JSON.stringify(text)})`);
};

describe('a reader', () => {
  test('gets from the first page to the tutorial of the runtime, whose sidebar has no page of the operator', async () => {
    await inTab('', async (page) => {
      expect((await texts(page, '.VPFeature .title')).slice(0, 4)).toEqual([
        'Perturb',
        'Mutate',
        'Simulate',
        'Explain',
      ]);
      await page.click('.VPHero a.brand');
      await heading(page, '@echoperator/runtime');
      await page.click('.VPHero a.brand');
      await page.waitForSelector('.VPSidebar');
      const titles = await texts(page, '.VPSidebar .group > .VPSidebarItem > .item .text');
      expect(titles).toEqual(['Tutorials', 'How-to guides', 'Reference', 'Explanation']);
      const pages = await texts(page, '.VPSidebar .link .text');
      expect(pages).toContain('Writing an operator');
      expect(pages).not.toContain('Install');
    });
  });

  test('gets to the operator and to a kind', async () => {
    await inTab('', async (page) => {
      await page.click('.VPNavBarMenuLink[href$="operator.html"]');
      await heading(page, 'echoperator');
      await page.click('.VPHero a.alt');
      await heading(page, 'Install');
      await page.click('.VPSidebar a[href$="docs/echo.html"]');
      await heading(page, 'Echo');
    });
  });

  test('opens the menu on a phone', async () => {
    const read = async (page: Page): Promise<void> => {
      await page.click('.VPLocalNav .menu');
      await page.waitForSelector('.VPSidebar.open a[href$="docs/install.html"]', { visible: true });
      await page.click('.VPSidebar.open a[href$="docs/install.html"]');
      await heading(page, 'Install');
    };
    // The window has this width from the start: a menu that slides away after a change of width would take the click.
    await inTab('docs/echo.html', read, { viewport: phone });
  });

  test('finds a word without a network', async () => {
    await inTab('', async (page) => {
      await page.click('#local-search button');
      await page.waitForSelector('#localsearch-input');
      await page.type('#localsearch-input', 'reply-lost');
      const result = await page.waitForSelector('#localsearch-list .result[href*="docs/testing"]');
      await result?.click();
      await heading(page, 'Testing an operator');
    });
  });

  test('has the colors that the system prefers, and keeps another choice', async () => {
    const read = async (page: Page): Promise<void> => {
      const lightness = async (): Promise<number> => {
        const color = (await page.evaluate('getComputedStyle(document.body).backgroundColor')) as string;
        return (color.match(/\d+/g) ?? []).reduce((sum, part) => sum + Number(part), 0);
      };
      expect(await lightness()).toBeLessThan(200);
      await page.click('.VPNavBarAppearance .VPSwitch');
      await page.waitForFunction("!document.documentElement.classList.contains('dark')");
      await page.reload({ waitUntil: 'networkidle0' });
      expect(await lightness()).toBeGreaterThan(600);
    };
    await inTab('docs/echo.html', read, { colors: 'dark' });
  });
});

describe('the pages', () => {
  const visits = new Map<string, Visit>();
  beforeAll(async () => {
    const files = globSync('**/*.html', { cwd: htmlFolder }).sort();
    const pages = files.filter((file) => file !== '404.html');
    const addresses = pages.map((file) => `${server.address}${file}`);
    for (const [index, one] of (await visitAll(started.browser, addresses)).entries()) {
      visits.set(`${base}${pages[index]}`, one);
    }
  });

  test('fit a phone, load what they name, and have no violations of accessibility rules in light and dark', () => {
    expect(visits.size).toBeGreaterThan(35);
    const problems = [...visits].filter(([, one]) => one.problems.length > 0);
    expect(problems.map(([path, one]) => [path, one.problems])).toEqual([]);
  });

  test('have titles that differ', () => {
    const titles = [...visits.values()].map(({ title }) => title);
    expect(titles.filter((title, index) => titles.indexOf(title) !== index)).toEqual([]);
  });

  test('have no broken link or anchor within the site', () => {
    const broken = [...visits].flatMap(([path, { links }]) =>
      links
        .filter((link) => link.startsWith(server.address))
        .filter((link) => {
          const { pathname, hash } = new URL(link);
          const target = visits.get(pathname.endsWith('/') ? `${pathname}index.html` : pathname);
          const id = decodeURIComponent(hash.slice(1));
          return target === undefined || (id !== '' && !target.ids.includes(id));
        })
        .map((link) => `${path}: ${link}`),
    );
    expect(broken).toEqual([]);
  });

  test('link to files, lines and headings of the repository that exist', () => {
    const repositoryLinks = [...visits].flatMap(([path, { links }]) =>
      links.filter((link) => link.startsWith(`${repositoryAddress}/`)).map((link) => ({ path, link })),
    );
    expect(repositoryLinks.length).toBeGreaterThan(100);
    expect(repositoryLinks.filter(({ link }) => !isInRepository(link))).toEqual([]);
  });
});

function isInRepository(link: string): boolean {
  const { pathname, hash } = new URL(link);
  const [, kind, path = ''] =
    /^\/(blob|tree)\/main\/(.+)$/.exec(
      decodeURIComponent(pathname.slice(new URL(repositoryAddress).pathname.length)),
    ) ?? [];
  // Pages of GitHub itself, such as releases.
  if (kind === undefined) return true;
  const file = join(root, path);
  if (!existsSync(file) || statSync(file).isDirectory() !== (kind === 'tree')) return false;
  if (hash === '') return true;
  const text = readFileSync(file, 'utf8');
  const [, line] = /^#L(\d+)$/.exec(hash) ?? [];
  return line === undefined
    ? headingAnchors(text).includes(decodeURIComponent(hash.slice(1)))
    : Number(line) <= text.split('\n').length;
}
