import { testRelists } from './environment/relists.ts';

// In eight pages; relist.nightly.test.ts has many.
testRelists(2_000);
