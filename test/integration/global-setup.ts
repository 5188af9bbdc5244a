import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type ControlPlane, startControlPlane } from '../../testkit/control-plane.ts';
import { canFakeClock, ensureFakeClock } from '../../testkit/fake-clock.ts';
import { ensurePostgres } from '../../testkit/postgres-server.ts';
import { makeRunFolder } from '../../testkit/run-folder.ts';
import { publishServers, type ServerOfWorker } from '../../testkit/server-of-worker.ts';
import { bundlePrograms, publishShippedPrograms } from '../../testkit/shipped-program.ts';
import { isOldestKubernetes } from '../../testkit/test-environment.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { integrationPrograms } from '../run/suites.ts';

const crds = join(import.meta.dirname, '../../crds');

/**
 * Starts an API server per worker: on one server, the operators of two test files would reconcile each other's objects.
 */
export default async function setUp({ maxWorkers }: { readonly maxWorkers: number }): Promise<void> {
  const folder = await makeRunFolder('integration');
  process.env.INTEGRATION_FOLDER = folder;
  const controlPlanes: ControlPlane[] = [];
  // Set before the servers start, so that the tear-down stops those that started.
  globalThis.integration = { folder, controlPlanes };
  // Downloads and builds exceed the time limit of a test, so they happen here.
  await ensureBinaries(integrationPrograms);
  await ensurePostgres();
  if (canFakeClock) await ensureFakeClock();
  publishShippedPrograms(await bundlePrograms(join(folder, 'programs')));
  const servers: ServerOfWorker[] = [];
  // One after the other, because each looks for free ports.
  for (let worker = 1; worker <= maxWorkers; worker++) {
    const own = join(folder, `server-${worker}`);
    await mkdir(own, { recursive: true });
    const controlPlane = await startControlPlane(own, [crds], { kwok: !isOldestKubernetes() });
    controlPlanes.push(controlPlane);
    servers.push({ kubeconfig: controlPlane.config.kubeconfigPath, auditLog: controlPlane.auditLog });
  }
  publishServers(servers);
}
