/** Measures an operator's cost of an event, with few and with many cached objects. */
export { eventCostTurn } from './event-cost.ts';
