import { rm } from 'node:fs/promises';
import type { ControlPlane } from '../../testkit/control-plane.ts';

declare global {
  /** What the set-up hands to the tear-down: jest runs both in one process. */
  var integration: { readonly folder: string; readonly controlPlanes: readonly ControlPlane[] } | undefined;
}

export default async function tearDown(): Promise<void> {
  if (globalThis.integration === undefined) return;
  await Promise.all(globalThis.integration.controlPlanes.map((controlPlane) => controlPlane.stop()));
  await rm(globalThis.integration.folder, { recursive: true, force: true });
}
