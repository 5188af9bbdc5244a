import { type EChartsOption, init } from 'echarts';

/** A colour on a light page, and the one that replaces it on a dark page. Both have a contrast of at least 3:1. */
interface Shade {
  readonly light: string;
  readonly dark: string;
}

/** The colours of a picture apart from those of its data. */
export const shades = {
  background: { light: '#ffffff', dark: '#151b23' },
  text: { light: '#1f2328', dark: '#e6edf3' },
  quiet: { light: '#59636e', dark: '#9198a1' },
  faint: { light: '#d1d9e0', dark: '#3d444d' },
  good: { light: '#1a7f37', dark: '#3fb950' },
  bad: { light: '#cf222e', dark: '#f85149' },
} as const satisfies Readonly<Record<string, Shade>>;

/** Colours of data. Readers who do not see red or green can distinguish the first five. */
export const palette = [
  { light: '#0072b2', dark: '#58a6ff' },
  { light: '#b35900', dark: '#f0a04b' },
  { light: '#00795a', dark: '#35b894' },
  { light: '#b0478a', dark: '#e58fc0' },
  { light: '#806600', dark: '#e3cf5a' },
  { light: '#6e5494', dark: '#b392f0' },
  { light: '#6e7781', dark: '#a4adb8' },
  { light: '#a04030', dark: '#ff8f7a' },
] as const satisfies readonly Shade[];

/** Replaces each light colour in a reader's dark mode. The picture has a background, so it is legible on any page. */
const darkModeStyle = (elements: string): string => {
  const rules = [...Object.values(shades), ...palette].flatMap(({ light, dark }) =>
    ['fill', 'stroke'].flatMap((name) => {
      const attribute = `${name}="${light}"`;
      return elements.includes(attribute) ? [`[${attribute}] { ${name}: ${dark} }`] : [];
    }),
  );
  return `<style>@media (prefers-color-scheme: dark) {\n${rules.join('\n')}\n}</style>`;
};

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** Escapes a text for markup. */
export const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => escapes[character] ?? character);

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** A whole picture: its title for screen readers, its colours in dark mode, its background, and these elements. */
export function picture(title: string, { width, height }: Size, elements: string): string {
  const background = `<rect width="${width}" height="${height}" rx="6" fill="${shades.background.light}"/>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    darkModeStyle(background + elements),
    background,
    elements,
    '</svg>\n',
  ].join('\n');
}

/**
 * Draws a chart with ECharts, as the elements of an SVG, without a browser. Equal arguments give equal elements.
 *
 * @param id of the chart's clip paths, which must be unique in a picture of several charts.
 */
export function chartElements(option: EChartsOption, size: Size, id = 'clip'): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, ...size });
  try {
    chart.setOption({ animation: false, ...option });
    return (
      chart
        .renderToSVGString()
        .replace(/^<svg[^>]*>\n?/, '')
        .replace(/\n?<\/svg>\s*$/, '')
        // Only a page with ECharts's own code uses these.
        .replace(/<style[\s\S]*?<\/style>/g, '')
        .replace(/ (class|ecmeta_\w+|pointer-events|xml:space)="[^"]*"/g, '')
        // ECharts counts the charts of the process.
        .replace(/\bzr\d+-/g, `${id}-`)
        .replace(/ >/g, '>')
        .replace(/\n{2,}/g, '\n')
        .trim()
    );
  } finally {
    chart.dispose();
  }
}

/** Draws a chart as a whole picture. */
export const chartPicture = (title: string, size: Size, option: EChartsOption): string =>
  picture(title, size, chartElements(option, size));
