import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DefaultTheme, defineConfig, type MarkdownOptions } from 'vitepress';
import { headingAnchor } from '../../testkit/markdown.ts';
import type { ApiPage } from '../api.ts';
import { address, base, htmlFolder, pagesFolder, repositoryAddress } from '../folders.ts';
import { siteLink } from '../links.ts';
import { groupTitles, pagesOf, repositoryPages, type Section, sections } from '../navigation.ts';

const read = (path: string): string => readFileSync(join(pagesFolder, path), 'utf8');
const api: readonly ApiPage[] = existsSync(join(pagesFolder, 'api.json')) ? JSON.parse(read('api.json')) : [];
const pages = new Set(repositoryPages);

/** The titles of pages whose heading names the project or the package rather than the page's content. */
const shortTitles: Readonly<Record<string, string>> = {
  'README.md': 'First steps',
  'charts/echoperator/README.md': "The chart's values",
  'packages/runtime/README.md': 'Package runtime',
  'packages/testing/README.md': 'Package testing',
  'packages/cli/README.md': 'Package cli',
  'packages/create-operator/README.md': 'Package create-operator',
  'docs/index.md': 'All pages and kinds',
};

const titleOf = (path: string): string => shortTitles[path] ?? /^# (.+)$/m.exec(read(path))?.[1] ?? path;

const item = (path: string): DefaultTheme.SidebarItem => ({ text: titleOf(path), link: `/${path}` });

function sidebarOf(section: Section): DefaultTheme.SidebarItem[] {
  const groups = (['tutorials', 'howTo', 'reference', 'explanation'] as const).map((group) => ({
    text: groupTitles[group],
    items: [...section[group].map(item), ...(section.name === 'Runtime' && group === 'reference' ? [apiItem] : [])],
  }));
  return groups.filter(({ items }) => items.length > 0);
}

const apiItem: DefaultTheme.SidebarItem = {
  text: 'API',
  link: '/api/index.md',
  collapsed: true,
  items: api.map(({ specifier, path }) => ({
    text: specifier.replace('@echoperator/', ''),
    link: `/api/${path}`,
  })),
};

/** Each page has the sidebar of its section only. */
function sidebars(): DefaultTheme.SidebarMulti {
  const ofPages = sections.flatMap((section) =>
    [section.start, ...pagesOf(section)].map((path) => [`/${path}`, sidebarOf(section)] as const),
  );
  const [runtime] = sections;
  return { ...Object.fromEntries(ofPages), '/api/': runtime === undefined ? [] : sidebarOf(runtime) };
}

/** Rewrites links to what is no page of the site, and draws diagrams in the browser. */
const configureMarkdown: MarkdownOptions['config'] = (md) => {
  md.core.ruler.push('repository-links', ({ tokens, env }) => {
    const path: unknown = env.relativePath;
    if (typeof path !== 'string' || !pages.has(path)) return;
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : null;
      if (href !== null) token.attrSet('href', siteLink(href, path, pages));
    }
  });
  md.core.ruler.push('indented-code', ({ tokens }) => {
    for (const token of tokens.filter(({ type }) => type === 'code_block')) {
      token.type = 'fence';
      token.info = 'txt';
    }
  });
  // Screen readers announce a heading without text as a column's name.
  md.core.ruler.push('empty-headings', ({ tokens }) => {
    for (const [index, { type }] of tokens.entries()) {
      const cell = tokens.slice(index, index + 3);
      if (type !== 'th_open' || cell[1]?.content !== '') continue;
      for (const token of cell) if (token.type.startsWith('th_')) token.tag = 'td';
    }
  });
  // Pages are Markdown, and no templates of Vue: text like `{{.info.pid}}` is shown as it is.
  for (const rule of ['text', 'code_inline'] as const) {
    const render = md.renderer.rules[rule];
    md.renderer.rules[rule] = (...args) => (render?.(...args) ?? '').replaceAll('{{', '&#123;&#123;');
  }
  // Names in tables may break where their parts end.
  const renderCode = md.renderer.rules.code_inline;
  md.renderer.rules.code_inline = (...args) =>
    (renderCode?.(...args) ?? '').replace(/(?<=>)[^<]+/g, (text) =>
      text.replace(/(?<=[\w\])};])[_./,:](?=[\w&[])/g, '$&<wbr>'),
    );
  md.core.ruler.push('long-cells', ({ tokens }) => {
    for (const [index, token] of tokens.entries()) {
      if (token.type === 'td_open' && (tokens[index + 1]?.content.length ?? 0) > 60) token.attrJoin('class', 'long');
    }
  });
  const renderFence = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, index, options, env, self) => {
    const token = tokens[index];
    if (token?.info !== 'mermaid') return renderFence?.(tokens, index, options, env, self) ?? '';
    return `<MermaidDiagram code="${encodeURIComponent(token.content)}" />`;
  };
  // A table that is wider than the page scrolls in a box of its own. The box takes the focus, so that keys scroll it.
  md.renderer.rules.table_open = () => '<div class="table-box" tabindex="0" role="group" aria-label="Table"><table>\n';
  md.renderer.rules.table_close = () => '</table></div>\n';
};

const icon =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="3" fill="#5672cd"/></svg>';

export default defineConfig({
  title: 'echoperator',
  description: 'A controller runtime for Kubernetes in TypeScript, and an operator that is written with it',
  lang: 'en',
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  base,
  srcDir: pagesFolder,
  outDir: htmlFolder,
  cacheDir: join(import.meta.dirname, '../dist/cache'),
  // The pages are built elsewhere than in a clone, where VitePress would read the dates.
  lastUpdated: false,
  sitemap: { hostname: address },
  // Tabs of a browser and results of a search show only the title, so the titles must differ.
  transformPageData: ({ relativePath }) => {
    const title = shortTitles[relativePath];
    return title === undefined ? undefined : { title };
  },
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: headingAnchor },
    languageAlias: { console: 'shellsession', gotemplate: 'yaml' },
    config: configureMarkdown,
  },
  themeConfig: {
    nav: [
      ...sections.map(({ name, start, ...rest }) => ({
        text: name,
        link: `/${start}`,
        activeMatch: `^/(${[start, ...pagesOf({ name, start, ...rest })].map((path) => path.replace(/\.md$/, '')).join('|')})$`,
      })),
      { text: 'API', link: '/api/index.md', activeMatch: '^/api/' },
    ],
    sidebar: sidebars(),
    outline: [2, 3],
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repositoryAddress }],
  },
  vite: {
    // VitePress's esbuild does not know the target of the project's tsconfig.json yet.
    esbuild: { tsconfigRaw: { compilerOptions: { target: 'es2022' } } },
    build: { chunkSizeWarningLimit: 2000 },
  },
});
