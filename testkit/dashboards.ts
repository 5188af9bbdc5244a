import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const folder = join(import.meta.dirname, '../charts/echoperator/files/dashboards');

/** A query of a panel of a Grafana dashboard. */
export interface PanelQuery {
  readonly dashboard: string;
  readonly panel: string;
  readonly expr: string;
  readonly legend: string;
  /** Grafana's unit of the values. */
  readonly unit: string;
}

interface Panel {
  readonly type: string;
  readonly title?: string;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[];
}

/**
 * All queries of the chart's dashboards, in their order.
 *
 * @param variables replace those of the dashboards, as `$namespace`.
 */
export function panelQueries(variables: Readonly<Record<string, string>>): readonly PanelQuery[] {
  return globSync('*.json', { cwd: folder })
    .sort()
    .flatMap((file) => {
      const { panels } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as { panels: readonly Panel[] };
      return panels.flatMap(({ title = '', targets = [], fieldConfig }) =>
        targets.map(({ expr, legendFormat = '' }) => ({
          dashboard: basename(file, '.json'),
          panel: title,
          expr: Object.entries(variables).reduce((text, [name, value]) => text.replaceAll(`$${name}`, value), expr),
          legend: legendFormat,
          unit: fieldConfig?.defaults.unit ?? '',
        })),
      );
    });
}
