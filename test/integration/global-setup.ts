import { join } from 'node:path';
import { startControlPlane } from './environment/control-plane.ts';
import { makeRunFolder } from './environment/run-folder.ts';

/** One API server a run; workers inherit the environment variables that say where it is. */
export default async function setUp(): Promise<void> {
  const folder = await makeRunFolder();
  const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../../crds')]);
  process.env.INTEGRATION_FOLDER = folder;
  process.env.INTEGRATION_KUBECONFIG = controlPlane.config.kubeconfigPath;
  process.env.INTEGRATION_AUDIT_LOG = controlPlane.auditLog;
  globalThis.integration = { folder, controlPlane };
}
