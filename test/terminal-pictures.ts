/**
 * Draws the terminals of the README from a run on a real API server:
 *
 *     node test/terminal-pictures.ts
 *
 * `explain` shows an Echo whose Job a quota refuses. `perturb` finds a defect in a small controller, which is made on
 * purpose: it writes the status only in the reconcile that created the child.
 */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { controllerReference, done, owns } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { ConfigMap, ResourceQuota } from '@echoperator/runtime/kinds';
import { formatExplanation } from '@echoperator/runtime/process';
import { perturb, type Scenario } from '@echoperator/testing';
import { pino } from 'pino';
import { Echo } from '../src/kinds/echo/kind.ts';
import { startControlPlane } from '../testkit/control-plane.ts';
import { echoManifest } from '../testkit/echos.ts';
import { eventually } from '../testkit/eventually.ts';
import { OperatorProcess, operatorCommand } from '../testkit/operator-process.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import { bundlePrograms, publishShippedPrograms } from '../testkit/shipped-program.ts';
import { terminalPicture } from '../testkit/terminal-picture.ts';
import { TestCluster } from '../testkit/test-cluster.ts';
import { customManifest } from '../testkit/with-reason.ts';

const images = join(import.meta.dirname, '../docs/images');

/** What `explain` prints on a terminal about an Echo that a quota refuses. */
async function explain(cluster: TestCluster, folder: string): Promise<string> {
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
    const { stdout } = await operatorCommand(['explain', `echo/${name}`, '-n', namespace, '--json'], settings);
    return formatExplanation(JSON.parse(String(stdout)), { color: true });
  } finally {
    await operator.stop();
  }
}

const forgetful: Scenario = {
  name: 'forgetful',
  kinds: [Echo, ConfigMap],
  addControllers: ({ manager }, namespace) => {
    const scope = { namespaces: [namespace] };
    const echos = manager.informer(Echo, scope).store;
    const children = manager.informer(ConfigMap, scope).store;
    manager.controller(Echo, {
      watches: [owns(Echo, ConfigMap)],
      reconcile: async (key, { client }) => {
        const echo = echos.get(key);
        if (echo === undefined || [...children.byOwner(echo.metadata.uid)].length > 0) return done;
        const metadata = { namespace, name: key.name, ownerReferences: [controllerReference(Echo, echo)] };
        await client.create(ConfigMap, { metadata });
        await client.mergeStatus(Echo, echo.metadata, { observedGeneration: echo.metadata.generation });
        return done;
      },
    });
  },
  steps: {
    create: ({ client, namespace }) =>
      client.create(Echo, customManifest({ name: 'hello', namespace }, { message: 'Hola' })),
    delete: ({ client, namespace }) => client.delete(Echo, { name: 'hello', namespace }),
  },
};

/** The error of the plan that finds the defect. */
async function findDefect(cluster: TestCluster): Promise<string> {
  const connection = await kubeconfigConnection(cluster.kubeconfig);
  const log = pino({ level: 'silent' });
  const { failures } = await perturb({
    connection,
    log,
    scenarios: [forgetful],
    only: ['forgetful/create write 2 unsent'],
    timeoutMs: 5000,
  });
  const [failure] = failures;
  if (failure === undefined) throw new Error('perturb did not find the defect');
  return failure.message;
}

const folder = await makeRunFolder('pictures');
await using resources = new AsyncDisposableStack();
resources.defer(() => rm(folder, { recursive: true, force: true }));
publishShippedPrograms(await bundlePrograms(join(folder, 'programs')));
const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../crds')]);
resources.defer(() => controlPlane.stop());
const cluster = await TestCluster.at(controlPlane.config.kubeconfigPath, controlPlane.auditLog);
resources.defer(() => cluster.disconnect());
const explained = await explain(cluster, folder);
const found = await findDefect(cluster);
console.log(`${explained}\n\n${found}`);
await writeFile(
  join(images, 'explain.svg'),
  terminalPicture(
    'explain says why an Echo has no Job: a quota',
    `$ node main.js explain echo/hello --namespace default\n${explained}`,
  ),
);
await writeFile(
  join(images, 'perturb.svg'),
  terminalPicture(
    'perturb crashes a controller before its second write, and finds that the status is never written',
    `$ node perturb.ts\n${found}`,
  ),
);
