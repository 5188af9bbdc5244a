import { ensureBinaries } from '../../tools/programs/index.ts';

/** Builds both Helms before the first test, whose time limit is not made for that. */
export default async function globalSetup(): Promise<void> {
  await ensureBinaries(['helm', 'helm4']);
}
