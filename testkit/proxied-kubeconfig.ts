import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { FaultProxy } from '@echoperator/testing';
import { parse, stringify } from 'yaml';
import { certificate, certificateKey } from './certificate.ts';

/**
 * Starts a proxy for the API server of a kubeconfig.
 *
 * @param folder for the new kubeconfig. The caller closes the proxy and removes the folder.
 * @returns the proxy, and a kubeconfig with the same credentials that leads to it
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
