/** Plots as SVG: just those that the benchmark's page has. */
export { barPlot } from './bar-plot.ts';
export { curvePlot } from './curve-plot.ts';
export { distributionPlot } from './distribution-plot.ts';
