import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { Cluster, removeClusterOnExit, type Watchdog } from '../../tools/cluster/index.ts';
import { ensureDebianPackages } from '../../tools/debian.ts';
import { ensureBinaries, ensureBinFolder } from '../../tools/programs/index.ts';
import { createOperator, installOperator, operatorName } from './environment/created-operator.ts';
import { buildOperatorImage } from './environment/operator-image.ts';
import { offlineEnvironment, prepared } from './environment/prepared.ts';
import { EmptyProject } from './environment/project.ts';

// The perturbations are many, and the cluster starts.
jest.setTimeout(900_000);

const clusterName = 't-scaffold';
const { folder, tarballs, node24 } = prepared();

let watchdog: Watchdog;
let cluster: Cluster;
let operator: EmptyProject;
/** What `npm run dev` starts, while it runs. */
let developed: ReturnType<EmptyProject['start']> | undefined;

beforeAll(async () => {
  // A killed run may have left it.
  await Cluster.down(clusterName);
  watchdog = await removeClusterOnExit(clusterName);
  cluster = await Cluster.up({ name: clusterName, nodes: 1 });
  const programs = await ensureBinaries(['kubectl', 'helm4']);
  const environment = offlineEnvironment();
  const parent = await EmptyProject.make(join(folder, 'create-nightly'), {
    ...environment,
    PATH: [environment.PATH, dirname(programs.get('kubectl') ?? '')].join(':'),
    HELM: programs.get('helm4') ?? '',
    KUBEBUILDER_ASSETS: await ensureBinFolder(['etcd', 'kube-apiserver']),
    KUBECONFIG: cluster.kubeconfigPath,
    // kubectl and helm would ask a proxy for what is on this machine.
    NO_PROXY: '10.0.0.0/8',
  });
  operator = await createOperator(parent, tarballs);
  await operator.run(installOperator(tarballs));
  await operator.run('npm run generate');
});
afterAll(async () => {
  developed?.kill('SIGKILL');
  await developed;
  await cluster?.down();
  await watchdog?.release();
});

const text = () => operator.run("kubectl get configmap hello --output jsonpath='{.data.text}'").catch(() => '');
const says = (expected: string) =>
  eventually(`the ConfigMap says ${expected}`, async () => (await text()) === expected);

/** The commands and the manifest under a heading of the operator's README, without the lines that `skips` matches. */
async function commandsUnder(heading: string, skips: RegExp): Promise<string> {
  const readme = await operator.read('README.md');
  const section = readme.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  const lines = [...section.matchAll(/^ {4}(.*)$/gm)].map(([, line = '']) => line);
  return lines.filter((line) => !skips.test(line)).join('\n');
}

test('its integration test passes', async () => {
  expect(await operator.run('npm run integration')).toMatch(/^. pass 2$/m);
});

test('its perturbation plan passes', async () => {
  expect(await operator.run('npm run perturb')).toMatch(/\d\d plans, (\d+) of \1 writes perturbed$/);
});

test('npm run dev works on the cluster that is named, as the README says, and restarts on a change', async () => {
  const context = await operator.run('kubectl config current-context');
  const refused = await operator.start('node', ['src/main.ts']);
  expect(refused).toMatchObject({ exitCode: 2, all: expect.stringContaining(`the current context "${context}"`) });
  // Without npm, which ends at a signal but not its program.
  const [program = '', ...args] = JSON.parse(await operator.read('package.json')).scripts.dev.split(' ');
  developed = operator.start(program, [...args, `--context=${context}`]);
  await operator.run(await commandsUnder('Develop', /^npm /));
  await says('Hello, world!');
  const source = 'src/web-site.ts';
  await operator.write(
    source,
    (await operator.read(source)).replace('text: spec.text }', "text: spec.text.concat('!') }"),
  );
  await says('Hello, world!!');
  developed.kill('SIGTERM');
  await developed;
  developed = undefined;
});

test('its image runs by its chart on a cluster, and restores a ConfigMap that is changed or deleted', async () => {
  await operator.run('npm run build');
  await ensureDebianPackages(['buildah']);
  const name = `registry.example.com/${operatorName}:0.1.0`;
  const image = await buildOperatorImage({
    operator: operator.folder,
    node: join(node24, 'node'),
    name,
    folder: join(folder, 'operator-image'),
  });
  await cluster.loadImage(image);
  const install = (await commandsUnder('Deploy', /^docker /)).replace('REGISTRY', 'registry.example.com');
  await operator.run(install.replace(/^helm/, '"$HELM"'));
  await operator.run('kubectl wait --for=condition=Ready website/hello');
  await operator.run(`kubectl patch configmap hello --type=merge --patch='{"data":{"text":"Go away!"}}'`);
  await says('Hello, world!!');
  await operator.run('kubectl delete configmap hello');
  await says('Hello, world!!');
  await operator.run('kubectl delete website hello');
  await eventually('the ConfigMap is deleted with its owner', async () => (await text()) === '');
});
