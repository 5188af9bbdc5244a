import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type ControlPlane, startControlPlane } from '../../testkit/control-plane.ts';
import { canFakeClock, ensureFakeClock } from '../../testkit/fake-clock.ts';
import { ensurePostgres } from '../../testkit/postgres-server.ts';
import { makeRunFolder } from '../../testkit/run-folder.ts';
import { type ServerOfWorker, tellWorkers } from '../../testkit/server-of-worker.ts';
import { bundlePrograms, tellShippedPrograms } from '../../testkit/shipped-program.ts';

const crds = join(import.meta.dirname, '../../crds');

/** An API server for each worker: the operators of two files on one server would reconcile each other's objects. */
export default async function setUp({ maxWorkers }: { readonly maxWorkers: number }): Promise<void> {
  const folder = await makeRunFolder();
  process.env.INTEGRATION_FOLDER = folder;
  const controlPlanes: ControlPlane[] = [];
  // Known to the tear-down before all have started, so that it stops those that have.
  globalThis.integration = { folder, controlPlanes };
  // Here and not in a test, whose time limit is not made for a download.
  await ensurePostgres();
  if (canFakeClock) await ensureFakeClock();
  tellShippedPrograms(await bundlePrograms(join(folder, 'programs')));
  const servers: ServerOfWorker[] = [];
  // One after the other: each looks for free ports.
  for (let worker = 1; worker <= maxWorkers; worker++) {
    const own = join(folder, `server-${worker}`);
    await mkdir(own, { recursive: true });
    const controlPlane = await startControlPlane(own, [crds], { kwok: true });
    controlPlanes.push(controlPlane);
    servers.push({ kubeconfig: controlPlane.config.kubeconfigPath, auditLog: controlPlane.auditLog });
  }
  tellWorkers(servers);
}
