/** What an event costs our operator, with few and with many objects cached. */
export { type EventCost, eventCostTurn } from './event-cost.ts';
