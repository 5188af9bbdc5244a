/** What becomes of a group of an operator's processes when its leader ends, and what it costs while nothing happens. */
export { CrashCluster } from './crash-cluster.ts';
export { crashTurn } from './crash-turn.ts';
export { type Electing, electing } from './elections.ts';
export { handoverTurn } from './handover-turn.ts';
export { idleTurn } from './idle-turn.ts';
