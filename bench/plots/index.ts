/** Plots as SVG: just those that the benchmark's page has. */
export { type Bar, barPlot } from './bar-plot.ts';
export { type Curve, curvePlot } from './curve-plot.ts';
export { distributionPlot, type Line } from './distribution-plot.ts';
