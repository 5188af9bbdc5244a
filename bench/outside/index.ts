/** Kinds that live outside of the cluster: many PostgresWriters and Pets at once, beside the same writes without an outside. */
export { bareTurn, outsideTurn } from './outside-turn.ts';
export { type Subject, subjects } from './subjects.ts';
