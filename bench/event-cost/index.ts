/** Measures our operator's cost of an event, with few and with many cached objects. */
export { type EventCost, eventCostTurn } from './event-cost.ts';
