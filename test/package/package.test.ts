import { once } from 'node:events';
import { stat, symlink } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { leasePermissions } from '@echoperator/runtime';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { publint } from 'publint';
import { type ControlPlane, startControlPlane } from '../../testkit/control-plane.ts';
import { eventually } from '../../testkit/eventually.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { entriesOf, manifestOf, type PublishedPackage, publishedPackages } from '../../tools/release/npm-package.ts';
import { guideCommands, guideDockerfile, guideManifest, guideTsconfig, websiteFile } from './environment/guide.ts';
import { installPackage, offlineEnvironment, prepared } from './environment/prepared.ts';
import { EmptyProject } from './environment/project.ts';
import { typeCheckGuide } from './environment/type-check.ts';

const [, , ...commands] = guideCommands();
const { folder, tarballs } = prepared();

/** About a quarter above the largest package, and above all that is installed, so that an unexpected file is noticed. */
const maxKilobytes = { packed: 350, unpacked: 1250, installed: 100_000 } as const;
const maxStartSeconds = 3;

const kilobytes = (bytes: number): string => `${Math.round(bytes / 1000).toLocaleString('en')} kB`;

/** Returns git's files in a file or folder of a package, relative to the package. */
async function trackedFiles(name: PublishedPackage, path: string): Promise<readonly string[]> {
  const cwd = join(import.meta.dirname, '../../packages', name);
  const { stdout } = await execa('git', ['ls-files', path], { cwd });
  return stdout.split('\n');
}

let controlPlane: ControlPlane;
let project: EmptyProject;

beforeAll(async () => {
  const environment = offlineEnvironment();
  const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  controlPlane = await startControlPlane(join(folder, 'control-plane'), []);
  project = await EmptyProject.make(join(folder, 'project'), {
    ...environment,
    PATH: [environment.PATH, dirname(kubectl)].join(':'),
    KUBECONFIG: controlPlane.config.kubeconfigPath,
  });
});
afterAll(async () => {
  await controlPlane?.stop();
});

describe.each(publishedPackages)('the package %s', (name) => {
  test('holds compiled code with its types and the files that its manifest names, and nothing of the operator or of the tests', async () => {
    const { stdout } = await execa('tar', ['--list', '--file', tarballs[name]]);
    const files = stdout.split('\n').map((path) => path.replace(/^package\//, ''));
    const others = files.filter((path) => !/^dist\/(?!.*\.test\.).+(?:\.js|\.d\.ts)$/.test(path));
    const manifest = await manifestOf(name);
    const tracked = await Promise.all((manifest.files ?? []).map((path) => trackedFiles(name, path)));
    expect(others.sort()).toEqual(['LICENSE', 'README.md', 'package.json', ...tracked.flat()].sort());
    const modules = [...entriesOf(manifest).values()];
    expect(files).toEqual(
      expect.arrayContaining(modules.flatMap((module) => [`dist/${module}.js`, `dist/${module}.d.ts`])),
    );
  });

  test('is small', async () => {
    const { size } = await stat(tarballs[name]);
    const { stdout } = await execa('tar', ['--list', '--verbose', '--file', tarballs[name]]);
    const unpacked = stdout.split('\n').reduce((total, line) => total + Number(line.split(/\s+/)[2]), 0);
    console.log(`@echoperator/${name}: ${kilobytes(size)} packed, ${kilobytes(unpacked)} unpacked`);
    expect(size / 1000).toBeLessThan(maxKilobytes.packed);
    expect(unpacked / 1000).toBeLessThan(maxKilobytes.unpacked);
  });

  test('has a manifest that leads Node and bundlers to files that exist, says publint', async () => {
    const { messages } = await publint({ pkgDir: join(folder, 'packages', name), pack: false });
    expect(messages).toEqual([]);
  });

  test('has a manifest that leads TypeScript to the right declarations of every entry, says attw', async () => {
    const attw = join(import.meta.dirname, '../../node_modules/.bin/attw');
    const { exitCode, stdout } = await execa(attw, [tarballs[name], '--profile', 'esm-only', '--format', 'ascii'], {
      reject: false,
    });
    expect({ exitCode, stdout }).toMatchObject({ exitCode: 0 });
    for (const entry of entriesOf(await manifestOf(name)).keys()) expect(stdout).toContain(`"${entry}"`);
  });
});

describe('in an empty project on Node 24', () => {
  test('it installs as the guide says', async () => {
    expect(await project.run('node --version')).toMatch(/^v24\./);
    await installPackage(project);
    const { dependencies } = JSON.parse(await project.read('package.json'));
    expect(Object.keys(dependencies)).toEqual([
      '@echoperator/runtime',
      '@kubernetes/client-node',
      'pino',
      'prom-client',
      'typebox',
    ]);
  });

  test('what it installs is small, and starts fast', async () => {
    const { stdout } = await execa('du', ['--summarize', '--bytes', join(project.folder, 'node_modules')]);
    const installed = Number(stdout.split('\t')[0]);
    // Processor time, because the machine may be busy with other tests.
    const measured = await project.run(
      `node --eval "import('@echoperator/runtime').then(() => console.log(JSON.stringify(process.cpuUsage())))"`,
    );
    const { user, system } = JSON.parse(measured) as NodeJS.CpuUsage;
    const seconds = (user + system) / 1e6;
    const start = `${seconds.toFixed(2)} s of processor time to start Node and to import the runtime`;
    console.log(`installed with all dependencies: ${kilobytes(installed)}; ${start}`);
    expect(installed / 1000).toBeLessThan(maxKilobytes.installed);
    expect(seconds).toBeLessThan(maxStartSeconds);
  });

  test('every entry of the runtime can be imported, and nothing else', async () => {
    for (const entry of entriesOf(await manifestOf('runtime')).keys())
      await project.run(`node -e "import('${entry}')"`);
    await expect(project.run(`node -e "import('@echoperator/runtime/dist/client/transport.js')"`)).rejects.toThrow(
      'ERR_PACKAGE_PATH_NOT_EXPORTED',
    );
  });

  test('what the guide and its README show type-checks under nodenext, declarations and all', async () => {
    expect(await typeCheckGuide(project, { module: 'nodenext', moduleResolution: 'nodenext' })).toBe('');
  });

  test("the guide's tsconfig.json accepts what the guide shows", async () => {
    expect(await project.typeCheckWith(guideTsconfig)).toBe('');
  });

  test("the guide's first test passes, in a simulation", async () => {
    await project.run('node --test simulation.ts');
  });

  test('the command generates from the guide what its page says, and finds it up to date', async () => {
    const generate = 'npx echoperator-cli generate greeter.ts --chart chart --docs docs';
    expect((await project.run(generate)).split('\n').sort()).toEqual([
      'wrote chart/crds/greetings.example.com.yaml',
      'wrote chart/files/rules.yaml',
      'wrote docs/greeting.md',
    ]);
    expect(await project.read('docs/greeting.md')).toContain('| `who` | a string of 1 to 100 characters; required |');
    expect(await project.run(`${generate} --check`)).toBe('');
    await project.run('rm docs/greeting.md');
    await expect(project.run(`${generate} --check`)).rejects.toThrow('docs/greeting.md is out of date');
  });

  test('without a kubeconfig the operator says so in one line', async () => {
    const { exitCode, all } = await project.start('node', ['greeter.ts'], { KUBECONFIG: '', HOME: folder });
    expect(all).toMatch(/^greeter: cannot find an API server: .*\.kube\/config is not readable$/);
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

  test('it works as its consoles show', async () => {
    expect(commands.length).toBeGreaterThan(4);
    for (const { command, output } of commands) {
      if (command.endsWith(' &')) operator = project.start('node', [command.split(' ')[1] ?? '']);
      // The first look may come before the controller has seen what the command is about.
      else if (output !== '') await eventually(command, async () => (await project.run(command)) === output.trimEnd());
      else await project.run(command);
    }
    expect(operator).toBeDefined();
  });

  test('the API server accepts the generated CRD, which is the one that it has', async () => {
    expect(await project.run('kubectl diff --filename chart/crds')).toBe('');
  });

  test('it restores a ConfigMap that somebody changed or deleted', async () => {
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

  test('it leaves a ConfigMap of another owner alone, and reports it', async () => {
    await project.run('kubectl create configmap sun --from-literal=text=mine');
    const sun = { apiVersion: 'example.com/v1', kind: 'Greeting', metadata: { name: 'sun' }, spec: { who: 'sun' } };
    await project.run(`kubectl apply --filename - <<'END'\n${JSON.stringify(sun)}\nEND`);
    await project.run(`kubectl wait --for=jsonpath='{.status.conditions[0].reason}'=NameTaken greeting/sun`);
    expect(await project.run("kubectl get configmap sun --output jsonpath='{.data.text}'")).toBe('mine');
  });

  test('the ConfigMap is deleted with its Greeting', async () => {
    await project.run('kubectl delete greeting world');
    await eventually('the ConfigMap is gone', async () => (await text()) === '', 60_000);
  });

  test('it stops gracefully', async () => {
    operator?.kill('SIGTERM');
    const ended = await operator;
    expect({ exitCode: ended?.exitCode, all: ended?.all }).toMatchObject({
      exitCode: 0,
      all: expect.stringContaining('asked to stop'),
    });
    operator = undefined;
  });

  test('with leader election it works while it leads, and releases its Lease', async () => {
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

  test('with the permissions that follow from its definition it maintains a second child, and leads', async () => {
    await project.run(`kubectl apply --filename - <<'END'\n${guideManifest}\nEND`);
    await project.run('node greeter-with-second-child.ts crds | kubectl apply --filename -');
    await project.run('node greeter-with-second-child.ts role | kubectl apply --filename -');
    await project.run('kubectl wait --for=condition=Established crd/greetings.example.com');
    await runAs('system:serviceaccount:greeter:greeter');
    operator = project.start('node', ['greeter-with-second-child.ts'], { KUBECONFIG: 'service-account.kubeconfig' });
    const mars = { apiVersion: 'example.com/v1', kind: 'Greeting', metadata: { name: 'mars' }, spec: { who: 'mars' } };
    await project.run(`kubectl apply --filename - <<'END'\n${JSON.stringify(mars)}\nEND`);
    await project.run('kubectl wait --for=condition=Exposed greeting/mars');
    await project.run('kubectl wait --for=condition=Ready greeting/mars');
    const address = await project.run("kubectl get service mars --output jsonpath='{.spec.clusterIP}'");
    expect(address).toMatch(/^10\.0\./);
    expect(await project.run("kubectl get greeting mars --output jsonpath='{.status.address}'")).toBe(address);
    operator.kill('SIGTERM');
    expect((await operator).exitCode).toBe(0);
    operator = undefined;
  });
});

/** Writes a kubeconfig for a user. */
async function runAs(user: string): Promise<void> {
  const admin = JSON.parse(await project.run('kubectl config view --raw --output json'));
  admin.users[0].user.as = user;
  await project.write('service-account.kubeconfig', JSON.stringify(admin));
}

describe('the example of a website', () => {
  const names = new Map<string, string>();
  let isDown = false;
  const dns = createServer((request, response) => {
    const name = request.url?.replace('/names/', '') ?? '';
    if (isDown) return void response.writeHead(503).end();
    if (request.method === 'DELETE') names.delete(name);
    else request.on('data', (body) => names.set(name, String(body)));
    request.resume().on('end', () => response.end());
  });
  let operator: ReturnType<EmptyProject['start']> | undefined;
  beforeAll(async () => {
    dns.listen(0, '127.0.0.1');
    await once(dns, 'listening');
    await project.write('website.ts', websiteFile.replace('port: 8080', 'port: 0'));
    await project.run('node website.ts crds | kubectl apply --filename -');
    await project.run('node website.ts role | kubectl apply --filename -');
    const lease = JSON.stringify({ rules: leasePermissions, metadata: { name: 'websites' } });
    const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', ...JSON.parse(lease) };
    await apply(role);
    await project.run('kubectl create clusterrolebinding websites --clusterrole=websites --user=websites');
    await project.run('kubectl create rolebinding websites --role=websites --user=websites');
    await runAs('websites');
    operator = project.start('node', ['website.ts'], { KUBECONFIG: 'service-account.kubeconfig' });
  });
  afterAll(async () => {
    operator?.kill('SIGKILL');
    await operator;
    dns.close();
  });

  const apply = (object: object) => project.run(`kubectl apply --filename - <<'END'\n${JSON.stringify(object)}\nEND`);
  const apiVersion = 'sites.example.com/v1';
  const websiteOf = (name: string) => ({
    ...{ apiVersion, kind: 'Website', metadata: { name } },
    spec: { class: 'small', host: `${name}.example.com`, page: '<h1>Hello</h1>', replicas: 2 },
  });
  const reasonIs = (name: string, reason: string) =>
    project.run(`kubectl wait --for=jsonpath='{.status.conditions[0].reason}'=${reason} website/${name} --timeout=60s`);

  test('waits for the class, writes four children, and serves when they are ready', async () => {
    await apply(websiteOf('shop'));
    await reasonIs('shop', 'ClassMissing');
    const dnsUrl = `http://127.0.0.1:${(dns.address() as AddressInfo).port}`;
    await apply({ apiVersion, kind: 'WebsiteClass', metadata: { name: 'small' }, spec: { image: 'nginx:1', dnsUrl } });
    await reasonIs('shop', 'Starting');
    expect(await project.run('kubectl get configmap,service,ingress,deployment shop --output name')).toBe(
      ['configmap/shop', 'service/shop', 'ingress.networking.k8s.io/shop', 'deployment.apps/shop'].join('\n'),
    );
    expect(names.get('shop.example.com')).toBe(JSON.stringify({ service: 'shop.default' }));
    // Nothing runs pods here.
    await project.run(`kubectl patch website shop --type=merge --patch '{"spec":{"replicas":0}}'`);
    await reasonIs('shop', 'Serving');
    expect(
      await project.run("kubectl get website shop --output jsonpath='{.status.url} {.status.readyReplicas}'"),
    ).toBe('http://shop.example.com 0');
  });

  test('reports a taken name, and a refusal', async () => {
    await project.run('kubectl create configmap taken --from-literal=text=mine');
    await apply(websiteOf('taken'));
    await reasonIs('taken', 'NameTaken');
    await project.run('kubectl delete configmap taken');
    await reasonIs('taken', 'Starting');
    await apply({ ...websiteOf('refused'), spec: { ...websiteOf('refused').spec, host: 'a..b' } });
    await reasonIs('refused', 'Refused');
  });

  test('keeps a deleted website until its name is removed', async () => {
    isDown = true;
    await project.run('kubectl delete website shop --wait=false');
    await reasonIs('shop', 'DnsFailed');
    expect(names.has('shop.example.com')).toBe(true);
    isDown = false;
    await project.run('kubectl wait --for=delete website/shop --timeout=60s');
    expect(names.has('shop.example.com')).toBe(false);
  });
});

describe("the guide's image", () => {
  test('has what the operator needs to run', async () => {
    // Beside the project's folder, so that the path of the tarball in its lock file is right.
    const image = await EmptyProject.make(join(folder, 'image'), offlineEnvironment());
    for (const { instruction, value } of guideDockerfile) {
      // The package itself lies beside the folder.
      const files = value
        .split(' ')
        .filter((file) => file !== '*.tgz')
        .slice(0, -1);
      if (instruction === 'COPY') for (const file of files) await image.write(file, await project.read(file));
      if (instruction !== 'RUN') continue;
      // `npm ci` asks the registry, so only check that the lock file has what it installs.
      expect(value).toBe('npm ci --omit=dev --omit=optional');
      await image.run('npm ls --omit=dev --omit=optional --package-lock-only');
      await symlink(join(project.folder, 'node_modules'), join(image.folder, 'node_modules'));
    }
    const entry: string[] = JSON.parse(
      guideDockerfile.find(({ instruction }) => instruction === 'ENTRYPOINT')?.value ?? '',
    );
    expect(JSON.parse(await image.run(`${entry.join(' ')} crds`))).toMatchObject({ kind: 'CustomResourceDefinition' });
  });
});
