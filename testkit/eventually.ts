import { eventually as within } from '../packages/testing/src/eventually.ts';

/** A busy machine may give a process a tenth of its usual time. */
const timeoutMs = 90_000;

/** Like `eventually` of the runtime's testing kit, with a longer default time limit. */
export const eventually: typeof within = (what, look, limitMs = timeoutMs) => within(what, look, limitMs);
