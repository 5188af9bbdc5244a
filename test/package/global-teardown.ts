import { rm } from 'node:fs/promises';
import { prepared } from './environment/prepared.ts';

export default async function tearDown(): Promise<void> {
  await rm(prepared().folder, { recursive: true, force: true });
}
