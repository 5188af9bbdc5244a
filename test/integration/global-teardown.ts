import { rm } from 'node:fs/promises';
import type { ControlPlane } from '../../testkit/control-plane.ts';

declare global {
  /** Passed from the set-up to the tear-down, which jest runs in the same process. */
  var integration: { readonly folder: string; readonly controlPlanes: readonly ControlPlane[] } | undefined;
}

export default async function tearDown(): Promise<void> {
  if (globalThis.integration === undefined) return;
  await Promise.all(globalThis.integration.controlPlanes.map((controlPlane) => controlPlane.stop()));
  await rm(globalThis.integration.folder, { recursive: true, force: true });
}
