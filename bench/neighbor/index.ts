/** Measures how long a tenant waits beside another one that has many objects, or whose reconciles fail. */
export { neighborTurn } from './neighbor-turn.ts';
export { refusedMs, refusedTurn } from './refused-turn.ts';
export { quietPerSecond, quietTimeoutMs } from './tenants.ts';
