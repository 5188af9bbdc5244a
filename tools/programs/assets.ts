import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Binary } from './catalogue.ts';

/** KUBEBUILDER_ASSETS is set and does not hold what it has to. */
export class AssetsError extends Error {
  override readonly name = 'AssetsError';
}

/**
 * The programs that KUBEBUILDER_ASSETS, the convention of controller-runtime's envtest, gives in place of ours.
 *
 * @returns name → path, of those among `binaries` that it may hold; empty where the variable is unset or empty
 * @throws AssetsError naming the variable, its value and each program that it must hold and does not
 */
export async function findAssets(
  binaries: readonly Binary[],
  environment: NodeJS.ProcessEnv,
): Promise<ReadonlyMap<string, string>> {
  const folder = environment.KUBEBUILDER_ASSETS;
  const found = new Map<string, string>();
  if (!folder) return found;
  const missing: string[] = [];
  for (const { name, assets } of binaries) {
    if (assets === undefined) continue;
    const path = join(folder, name);
    if (await isExecutable(path)) found.set(name, path);
    else if (assets === 'required') missing.push(name);
  }
  if (missing.length > 0) {
    throw new AssetsError(
      `KUBEBUILDER_ASSETS is ${JSON.stringify(folder)}, a folder without ${missing.join(' and ')}: ` +
        'point it at one that has them, or unset it to have them built.',
    );
  }
  return found;
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
