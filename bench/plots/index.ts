/** Plots as SVG: just the two that the benchmark's page has. */
export { type Bar, barPlot } from './bar-plot.ts';
export { distributionPlot, type Line } from './distribution-plot.ts';
