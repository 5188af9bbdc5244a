import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const folder = join(import.meta.dirname, '../charts/echoperator/files/dashboards');

/** A query of a panel of a Grafana dashboard. */
export interface PanelQuery {
  readonly dashboard: string;
  readonly row: string;
  /** Whether a reader opens the row to see the panel. */
  readonly isFolded: boolean;
  readonly panel: string;
  readonly type: PanelType;
  readonly expr: string;
  readonly legend: string;
  readonly field: FieldDefaults;
  /** Of a stat: whether the name of a series is shown instead of its value. */
  readonly showsName: boolean;
}

type PanelType = 'stat' | 'state-timeline' | 'timeseries';

/** How Grafana shows the values of a panel. */
interface FieldDefaults {
  readonly unit?: string;
  readonly thresholds?: { readonly steps: readonly { readonly value: number | null; readonly color: string }[] };
  readonly mappings?: readonly {
    readonly options: Readonly<Record<string, { readonly text: string; readonly color: string }>>;
  }[];
}

/** A panel, or a row; a folded row contains its panels, and the panels of another row follow it. */
export interface DashboardPanel {
  readonly type: PanelType | 'row';
  readonly title?: string;
  readonly collapsed?: boolean;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly panels?: readonly DashboardPanel[];
  readonly fieldConfig?: { readonly defaults: FieldDefaults };
  readonly options?: { readonly textMode?: string };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[];
}

/** The chart's dashboards, by name. */
export const readDashboards = (): ReadonlyMap<string, readonly DashboardPanel[]> =>
  new Map(
    globSync('*.json', { cwd: folder })
      .sort()
      .map((file) => {
        const { panels } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as { panels: DashboardPanel[] };
        return [basename(file, '.json'), panels];
      }),
  );

/**
 * All queries of the chart's dashboards, in their order.
 *
 * @param variables replace those of the dashboards, as `$namespace`.
 */
export function panelQueries(variables: Readonly<Record<string, string>>): readonly PanelQuery[] {
  const withValues = (expr: string): string =>
    Object.entries(variables).reduce((text, [name, value]) => text.replaceAll(`$${name}`, value), expr);
  return [...readDashboards()].flatMap(([dashboard, entries]) => {
    let row = '';
    return entries.flatMap((entry) => {
      if (entry.type === 'row') row = entry.title ?? '';
      return [entry, ...(entry.panels ?? [])].flatMap(({ type, title = '', targets = [], fieldConfig, options }) =>
        type === 'row'
          ? []
          : targets.map(({ expr, legendFormat = '' }) => ({
              dashboard,
              row,
              isFolded: entry.type === 'row',
              panel: title,
              type,
              expr: withValues(expr),
              legend: legendFormat,
              field: fieldConfig?.defaults ?? {},
              showsName: options?.textMode === 'name',
            })),
      );
    });
  });
}
