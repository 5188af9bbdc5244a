/**
 * Draws the terminals of the README. The commands run in a terminal, on a real API server:
 *
 *     node test/terminal-pictures.ts
 *
 * `explain` shows an Echo whose Job a quota refuses. `perturb` finds a defect in the controller of
 * terminal-pictures/perturb.ts.
 */
import { rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ResourceQuota } from '@echoperator/runtime/kinds';
import { execa } from 'execa';
import { Echo } from '../src/kinds/echo/kind.ts';
import { startControlPlane } from '../testkit/control-plane.ts';
import { echoManifest } from '../testkit/echos.ts';
import { eventually } from '../testkit/eventually.ts';
import { OperatorProcess } from '../testkit/operator-process.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { bundlePrograms, publishShippedPrograms } from '../testkit/shipped-program.ts';
import { terminalPicture } from '../testkit/terminal-picture.ts';
import { TestCluster } from '../testkit/test-cluster.ts';

const images = join(import.meta.dirname, '../docs/images');

/** Runs a command in a terminal, by `script` of util-linux. @returns what the terminal shows: also the command */
async function typed(command: string, cwd: string, env: Readonly<Record<string, string>>): Promise<string> {
  const script = ['--quiet', '--return', '--command', command, '/dev/null'];
  // The shell of `script` finds the Node that runs this program.
  const { stdout } = await execa('script', script, { cwd, env, node: false, stdin: 'ignore', preferLocal: true });
  return `$ ${command}\n${stdout.replaceAll('\r\n', '\n')}`;
}

/** What `explain` shows about an Echo whose Job a quota refuses. @param program the folder of the operator's bundle */
async function explain(cluster: TestCluster, folder: string, program: string): Promise<string> {
  const namespace = 'default';
  const settings = {
    EXPLAIN_DIR: folder,
    NAMESPACE: namespace,
    WATCH_NAMESPACES: namespace,
    CONTROLLERS: 'echo',
    HA_ENABLED: 'true',
    HA_NODE_ID: 'echoperator-6d5f',
  };
  const quota = { name: 'few-jobs', namespace };
  await cluster.client.create(ResourceQuota, { metadata: quota, spec: { hard: { 'count/jobs.batch': '0' } } });
  await eventually('the quota is in force', async () => {
    const { status } = await cluster.client.get(ResourceQuota, quota);
    return status?.hard?.['count/jobs.batch'] === '0';
  });
  const operator = await OperatorProcess.start(cluster.kubeconfig, settings);
  try {
    const name = 'hello';
    await cluster.client.create(Echo, echoManifest({ namespace, name }, { message: 'Hola' }));
    await eventually('the Job is refused', async () => {
      const { status } = await cluster.client.get(Echo, { namespace, name });
      return JSON.stringify(status ?? {}).includes('few-jobs');
    });
    return await eventually('the Echo waits for a retry', async () => {
      const shown = await typed(`node main.js explain echo/${name} --namespace ${namespace}`, program, settings);
      return shown.includes('waits for retry') ? shown : undefined;
    });
  } finally {
    await operator.stop();
  }
}

const draw = (name: string, title: string, text: string) =>
  writeFile(join(images, `${name}.svg`), terminalPicture(title, text));

const folder = await makeRunFolder('pictures');
await using resources = new AsyncDisposableStack();
resources.defer(() => rm(folder, { recursive: true, force: true }));
const programs = await bundlePrograms(join(folder, 'programs'));
publishShippedPrograms(programs);
const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../crds')]);
resources.defer(() => controlPlane.stop());
const { kubeconfigPath } = controlPlane.config;
const cluster = await TestCluster.at(kubeconfigPath, controlPlane.auditLog);
resources.defer(() => cluster.disconnect());
const explained = await explain(cluster, folder, dirname(programs.operator.main));
const found = await typed('node perturb.ts', join(import.meta.dirname, 'terminal-pictures'), {
  KUBECONFIG: kubeconfigPath,
});
console.log(`${explained}\n${found}`);
await draw('explain', 'explain says why an Echo has no Job: a quota', explained);
await draw(
  'perturb',
  'perturb crashes a controller before its second write, and finds that the status is never written',
  found,
);
