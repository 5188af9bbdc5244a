/** Measures Echos from their creation until their Jobs have succeeded, with real controllers and simulated pods. */
export { lifecycleTurn } from './lifecycle-turn.ts';
