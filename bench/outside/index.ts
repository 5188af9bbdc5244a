/**
 * Measures the kinds with an external system: many PostgresWriters and Pets, and only their writes to the API server.
 */
export { bareTurn, outsideTurn } from './outside-turn.ts';
export { subjects } from './subjects.ts';
