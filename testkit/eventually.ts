import { eventually as within } from '../src/runtime/testing/eventually.ts';

/** For what takes seconds: a machine that is busy with something else may give a process a tenth of its time. */
const timeoutMs = 90_000;

/** The testing kit's, with more patience. */
export const eventually: typeof within = (what, look, limitMs = timeoutMs) => within(what, look, limitMs);
