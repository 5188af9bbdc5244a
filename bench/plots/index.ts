/** The SVG plots of the benchmark's page. */
export { barPlot } from './bar-plot.ts';
export { curvePlot } from './curve-plot.ts';
export { distributionPlot } from './distribution-plot.ts';
