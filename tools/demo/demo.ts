import { mkdir, readFile, rm } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { parse } from 'yaml';
import { requireRootOnLinux } from '../cluster/errors.ts';
import { Cluster, clusterPrograms } from '../cluster/index.ts';
import { ensureBinaries, ensureBinFolder } from '../programs/index.ts';
import { buildImage } from '../release/index.ts';
import { serveChartRepository } from './chart-repository.ts';
import { type Commands, run } from './commands.ts';
import { diagnose } from './diagnose.ts';
import { prepareInstallation } from './helm-release.ts';
import type { RunStep } from './run-step.ts';
import { chart, chartRepository, clusterName, example, folder, namespace, nodes, release } from './settings.ts';

/** The pod printed a text that is not the Echo's message. */
class WrongLogError extends Error {
  override readonly name = 'WrongLogError';
}

/** A step failed after the cluster was up. The cause is the error; the message shows the state of the cluster. */
export class DemoError extends Error {
  override readonly name = 'DemoError';
}

export type Demo = {
  readonly kubeconfig: string;
  readonly bin: string;
  /** What the Echo's pod printed. */
  readonly log: string;
  /** What the operator did with the Echo. */
  readonly explanation: string;
};

/**
 * Brings up a cluster, installs the operator and runs an Echo. Every step can be repeated, so a run after an
 * interruption continues with what exists.
 *
 * @throws UnsupportedMachineError if this machine cannot run a cluster; DemoError if the operator does not become ready
 *   or the pod does not print the message of examples/echo.yaml; the errors of the builds
 */
export async function runDemo(runStep: RunStep, signal: AbortSignal): Promise<Demo> {
  requireRootOnLinux();
  await ensureBinaries([...clusterPrograms, 'helm'], { signal });
  const cluster = await Cluster.up({ name: clusterName, nodes, signal });
  const image = await runStep("Build the operator's image", () => buildImage({ signal }));
  await runStep(`Load the image on the nodes: ${image.name}`, () => cluster.loadImage(image.archive));
  const bin = await ensureBinFolder(['helm', 'kubectl'], { signal });
  const commands: Commands = { bin, kubeconfig: cluster.kubeconfigPath, signal };
  try {
    await installWithHelm(commands, image.archive, runStep);
    return { ...commands, ...(await applyExample(commands, runStep)) };
  } catch (cause) {
    signal.throwIfAborted();
    throw new DemoError(await diagnose(commands), { cause });
  }
}

/** Installs or upgrades the release from a temporary chart repository on this machine. */
async function installWithHelm(commands: Commands, archive: string, runStep: RunStep): Promise<void> {
  const packages = join(folder, 'chart-repository');
  const helm = (...args: readonly string[]): Promise<string> => run(commands, 'helm', ...args);
  await runStep('Package the chart and create a chart repository', async () => {
    await rm(packages, { recursive: true, force: true });
    await mkdir(packages, { recursive: true });
    await helm('package', chart, '--destination', packages);
    await helm('repo', 'index', packages);
  });
  await using server = await serveChartRepository(packages);
  await runStep(`helm repo add ${chartRepository} ${server.url}`, () =>
    helm('repo', 'add', chartRepository, server.url, '--force-update'),
  );
  await runStep('helm repo update', () => helm('repo', 'update', chartRepository));
  const verb = await prepareInstallation(commands, release, namespace);
  await runStep(`helm ${verb} ${release} ${chartRepository}/echoperator --namespace ${namespace}`, () =>
    helm(
      ...[verb, release, `${chartRepository}/echoperator`, ...(verb === 'install' ? ['--create-namespace'] : [])],
      ...['--namespace', namespace, '--wait', '--timeout', '3m'],
      // A rebuilt image has the same tag. The changed annotation makes a repeated demo start pods with the new image.
      ...['--set-string', `podAnnotations.demo/image=${basename(archive, '.tar')}`],
    ),
  );
}

async function applyExample(commands: Commands, runStep: RunStep): Promise<Pick<Demo, 'log' | 'explanation'>> {
  const kubectl = (...args: readonly string[]): Promise<string> => run(commands, 'kubectl', ...args);
  const echo = parse(await readFile(example, 'utf8')) as {
    readonly metadata: { readonly name: string; readonly namespace: string };
    readonly spec: { readonly message: string };
  };
  const { name, namespace: where } = echo.metadata;
  const file = relative(process.cwd(), example);
  await runStep(`kubectl apply --filename ${file}`, () => kubectl('apply', '--filename', example));
  await runStep(`kubectl wait --for=condition=Ready echo/${name}`, () =>
    kubectl('wait', '--for=condition=Ready', `echo/${name}`, '--namespace', where, '--timeout=120s'),
  );
  const log = await runStep(`kubectl logs job/${name}`, () => kubectl('logs', `job/${name}`, '--namespace', where));
  if (log !== `${echo.spec.message}\n`) {
    throw new WrongLogError(
      `The pod of job/${name} printed ${JSON.stringify(log)} instead of ${JSON.stringify(`${echo.spec.message}\n`)}.`,
    );
  }
  const explanation = await runStep(`explain echo/${name}`, () =>
    askLeader(commands, 'explain', `echo/${name}`, '--namespace', where),
  );
  return { log, explanation };
}

/** Runs a command of the operator in the pod of the leader. */
async function askLeader(commands: Commands, ...command: readonly string[]): Promise<string> {
  const lease = ['get', 'lease', release, '--namespace', namespace];
  const holder = await run(commands, 'kubectl', ...lease, '--output', 'jsonpath={.spec.holderIdentity}');
  const [pod = ''] = holder.split('_');
  const program = ['/usr/local/bin/node', '/app/main.js', ...command];
  return run(commands, 'kubectl', 'exec', pod, '--namespace', namespace, '--', ...program);
}

/** Removes the cluster and the demo's folder. The programs and the image stay in the cache. */
export async function removeDemo(runStep: RunStep): Promise<void> {
  await runStep('Remove the cluster', () => Cluster.down(clusterName));
  await rm(folder, { recursive: true, force: true });
}
