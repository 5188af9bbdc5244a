/**
 * Measures the kinds with an external system: many PostgresWriters and Pets, and only their writes to the API server.
 */
export { bareTurn, externalTurn } from './external-turn.ts';
export { subjects } from './subjects.ts';
