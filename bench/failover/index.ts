/** Measures how replicas of an operator replace their leader, and what they cost while they are idle. */
export { CrashCluster } from './crash-cluster.ts';
export { crashTurn, lostNodeTurn } from './crash-turn.ts';
export { type Electing, electing } from './elections.ts';
export { handoverTurn } from './handover-turn.ts';
export { idleTurn } from './idle-turn.ts';
