import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { kubeconfigConnection } from '../src/runtime/client/index.ts';
import { FaultProxy } from '../src/runtime/testing/index.ts';
import { certificate, certificateKey } from './certificate.ts';

/**
 * A proxy before the API server of a kubeconfig, and a kubeconfig for whoever is to go through it, with the same credentials.
 *
 * @param folder where that goes. Whoever asked closes the proxy and removes the folder.
 */
export async function proxiedKubeconfig(
  kubeconfig: string,
  folder: string,
): Promise<{ readonly proxy: FaultProxy; readonly kubeconfig: string }> {
  const tls = { ca: certificate, cert: certificate, key: certificateKey };
  const proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(kubeconfig), tls });
  const config = parse(await readFile(kubeconfig, 'utf8'));
  for (const { cluster } of config.clusters) {
    cluster.server = proxy.connection.server.href;
    cluster['certificate-authority-data'] = Buffer.from(certificate).toString('base64');
  }
  const file = join(await mkdtemp(join(folder, 'proxied-')), 'kubeconfig');
  await writeFile(file, stringify(config), { mode: 0o600 });
  return { proxy, kubeconfig: file };
}
