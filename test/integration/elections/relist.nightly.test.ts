import { testRelists } from './environment/relists.ts';

/** `RELIST_OBJECTS` is how many objects are listed. */
testRelists(Number(process.env.RELIST_OBJECTS ?? 50_000));
