import { mkdir, readFile, rm } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { parse } from 'yaml';
import { requireRootOnLinux } from '../cluster/errors.ts';
import { Cluster } from '../cluster/index.ts';
import { catalogue, ensureBinaries, ensureBinFolder } from '../programs/index.ts';
import { buildImage } from '../release/index.ts';
import { serveChartRepository } from './chart-repository.ts';
import { type Commands, run } from './commands.ts';
import { diagnose } from './diagnosis.ts';
import { isDeployed } from './helm-release.ts';
import { chart, chartRepository, clusterName, example, folder, namespace, nodes, release } from './settings.ts';
import type { Show } from './step.ts';

/** The pod printed something else than the Echo's message. */
export class WrongLogError extends Error {
  override readonly name = 'WrongLogError';
}

/** The cluster was there, and something on it went wrong: the cause says what, the message what it looks like. */
export class DemoError extends Error {
  override readonly name = 'DemoError';
}

export type Demo = { readonly kubeconfig: string; readonly bin: string; readonly log: string };

/**
 * From nothing to a pod's log. Every step is one that can be repeated: interrupted anywhere, the next run goes on with
 * what is there.
 * @throws UnsupportedMachineError where no cluster can run; DemoError where the operator does not get ready, or the pod did
 *   not print the message of examples/echo.yaml; what building throws
 */
export async function demo(show: Show, signal: AbortSignal): Promise<Demo> {
  requireRootOnLinux();
  await ensureBinaries(
    catalogue.map(({ name }) => name).filter((name) => name !== 'helm4'),
    { signal },
  );
  const cluster = await Cluster.up({ name: clusterName, nodes, signal });
  const image = await show("Build the operator's image", () => buildImage({ signal }));
  await show(`Load it into the nodes: ${image.name}`, () => cluster.loadImage(image.archive));
  const bin = await ensureBinFolder(['helm', 'kubectl'], { signal });
  const commands: Commands = { bin, kubeconfig: cluster.kubeconfigPath, signal };
  try {
    await installByHelm(commands, image.archive, show);
    return { ...commands, log: await applyExample(commands, show) };
  } catch (cause) {
    signal.throwIfAborted();
    throw new DemoError(await diagnose(commands), { cause });
  }
}

/** As from a chart repository on the web, but that it is on loopback and ends with this. */
async function installByHelm(commands: Commands, archive: string, show: Show): Promise<void> {
  const packages = join(folder, 'chart-repository');
  const helm = (...args: readonly string[]): Promise<string> => run(commands, 'helm', ...args);
  await show('Package the chart, and serve it as a chart repository', async () => {
    await rm(packages, { recursive: true, force: true });
    await mkdir(packages, { recursive: true });
    await helm('package', chart, '--destination', packages);
    await helm('repo', 'index', packages);
  });
  await using server = await serveChartRepository(packages);
  await show(`helm repo add ${chartRepository} ${server.url}`, () =>
    helm('repo', 'add', chartRepository, server.url, '--force-update'),
  );
  await show('helm repo update', () => helm('repo', 'update', chartRepository));
  const verb = (await isDeployed(commands, release, namespace)) ? ['upgrade'] : ['install', '--create-namespace'];
  await show(`helm ${verb[0]} ${release} ${chartRepository}/echoperator --namespace ${namespace}`, () =>
    helm(
      ...[...verb, release, `${chartRepository}/echoperator`],
      ...['--namespace', namespace, '--wait', '--timeout', '3m'],
      // The tag of an image that was built anew is the same: without this, a demo that is run again would not show it.
      ...['--set-string', `podAnnotations.demo/image=${basename(archive, '.tar')}`],
    ),
  );
}

async function applyExample(commands: Commands, show: Show): Promise<string> {
  const kubectl = (...args: readonly string[]): Promise<string> => run(commands, 'kubectl', ...args);
  const echo = parse(await readFile(example, 'utf8')) as {
    readonly metadata: { readonly name: string; readonly namespace: string };
    readonly spec: { readonly message: string };
  };
  const { name, namespace: where } = echo.metadata;
  const file = relative(process.cwd(), example);
  await show(`kubectl apply --filename ${file}`, () => kubectl('apply', '--filename', example));
  await show(`kubectl wait --for=condition=Ready echo/${name}`, () =>
    kubectl('wait', '--for=condition=Ready', `echo/${name}`, '--namespace', where, '--timeout=120s'),
  );
  const log = await show(`kubectl logs job/${name}`, () => kubectl('logs', `job/${name}`, '--namespace', where));
  if (log === `${echo.spec.message}\n`) return log;
  throw new WrongLogError(
    `The pod of job/${name} printed ${JSON.stringify(log)}, and not ${JSON.stringify(`${echo.spec.message}\n`)}.`,
  );
}

/** Removes the cluster and all that the demo wrote; the programs and the image stay in the cache. */
export async function removeDemo(show: Show): Promise<void> {
  await show('Remove the cluster', () => Cluster.down(clusterName));
  await rm(folder, { recursive: true, force: true });
}
