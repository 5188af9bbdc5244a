import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { eventually } from '../../testkit/eventually.ts';
import { cacheFolder } from '../../tools/cache-folder.ts';
import { baseImageArchives } from '../../tools/cluster/images.ts';
import { AuditLog, Cluster } from '../../tools/cluster/index.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { hostState, processesMentioning, tracesOf } from './environment/host.ts';

const main = join(import.meta.dirname, '../../tools/cluster/main.ts');
const folderOf = (name: string) => join(cacheFolder(), 'clusters', name);
const command = (...args: readonly string[]) => execa(process.execPath, [main, ...args], { reject: false, all: true });

/** All clusters of the tests, so that a failed test leaves none behind. */
const names = ['t-one', 't-two', 't-killed', 't-interrupted', 't-orphan'];

const downAll = async (): Promise<void> => {
  for (const name of names) await Cluster.down(name);
};

/** A killed run may have left clusters. */
beforeAll(downAll);
afterEach(downAll);

const pod = (name: string, spec: object): string =>
  JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: { app: name } }, spec });

const shell = (script: string) => ({ name: 'c', image: 'busybox:1.36', command: ['sh', '-c', script] });

const succeeded = (cluster: Cluster, name: string) =>
  cluster.kubectl(['wait', '--for=jsonpath={.status.phase}=Succeeded', `pod/${name}`, '--timeout=60s']);

test('two clusters run side by side with DNS, Services and volumes, and leave nothing behind', async () => {
  const before = await hostState();
  const [one, two] = await Promise.all([
    Cluster.up({ name: 't-one', nodes: 2 }),
    Cluster.up({ name: 't-two', nodes: 1 }),
  ]);
  for (const cluster of [one, two]) {
    const volume = { name: 'data', persistentVolumeClaim: { claimName: 'data' } };
    const mounts = [{ name: 'data', mountPath: '/data' }];
    await cluster.kubectl(
      ['apply', '--filename=-'],
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: 'data' },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Mi' } } },
      }),
    );
    const serve = `echo "I am ${cluster.name}" > /data/index.html && exec httpd -f -p 8080 -h /data`;
    const server = pod('web', { containers: [{ ...shell(serve), volumeMounts: mounts }], volumes: [volume] });
    await cluster.kubectl(['apply', '--filename=-'], server);
    await cluster.kubectl(['expose', 'pod', 'web', '--port=80', '--target-port=8080']);
    await cluster.kubectl(['wait', '--for=condition=Ready', 'pod/web', '--timeout=60s']);
    // From every node: a pod beside the server has another way to it than one of the next node. Without wget's -T,
    // which this busybox does not survive.
    const ask = 'nslookup kubernetes.default.svc.cluster.local && until wget -q -O - http://web; do sleep 1; done';
    for (const node of cluster.nodes) {
      const spec = { nodeName: node, restartPolicy: 'Never', containers: [shell(ask)] };
      await cluster.kubectl(['apply', '--filename=-'], pod(`ask-${node}`, spec));
      await succeeded(cluster, `ask-${node}`);
      const log = await cluster.kubectl(['logs', `ask-${node}`]);
      expect(log).toContain('Name:\tkubernetes.default.svc.cluster.local');
      expect(log).toContain(`I am ${cluster.name}`);
    }
    expect(await cluster.kubectl(['exec', 'web', '--', 'cat', '/data/index.html'])).toBe(`I am ${cluster.name}`);
    expect(await throughPortForward(cluster, 'service/web', 80)).toBe(`I am ${cluster.name}\n`);

    // Another pod finds what the first one wrote.
    await cluster.kubectl(['delete', 'pod', 'web', '--grace-period=1']);
    const reader = { ...shell('cat /data/index.html'), volumeMounts: mounts };
    const read = pod('read', { restartPolicy: 'Never', containers: [reader], volumes: [volume] });
    await cluster.kubectl(['apply', '--filename=-'], read);
    await succeeded(cluster, 'read');
    expect(await cluster.kubectl(['logs', 'read'])).toBe(`I am ${cluster.name}`);
  }
  const audited = (await AuditLog.fromStart(one.auditLog).events('default')).map(
    ({ verb, objectRef }) => `${verb} ${objectRef?.resource} ${objectRef?.name}`,
  );
  expect(audited).toContain('create persistentvolumeclaims data');
  // Both are seen by what is to find nothing in the end; and no setting of the host is another.
  for (const kind of ['process', 'mount', 'link', 'cgroup', 'file']) {
    for (const { name } of [one, two]) {
      expect((await tracesOf(name)).filter((trace) => trace.startsWith(kind))).not.toEqual([]);
    }
  }
  expect(await hostState()).toEqual(before);

  // Of the same name, and not the same.
  await inAnotherCache('down', '--name', 't-one');
  expect(await one.kubectl(['get', '--raw=/readyz'])).toBe('ok');

  await Promise.all([one.down(), two.down()]);
  expect(await tracesOf(one.name, two.name)).toEqual([]);
  expect(await hostState()).toEqual(before);
});

test('a node without power or network becomes NotReady, and Ready again afterwards', async () => {
  const cluster = await Cluster.up({ name: 't-one', nodes: 2 });
  const ready = (status: string) =>
    cluster.kubectl(['wait', `--for=condition=Ready=${status}`, 'node/node1', 'node/node2', '--timeout=60s']);
  await cluster.killNode('node2');
  await cluster.cutNetwork('node1');
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-image-'));
  try {
    await cluster.loadImage(await archiveOf('example.com/loaded:1', folder));
  } finally {
    await rm(folder, { recursive: true });
  }
  await ready('Unknown');
  await cluster.startNode('node2');
  await cluster.restoreNetwork('node1');
  await ready('True');
  for (const node of cluster.nodes) {
    const containers = [{ ...shell('echo back'), image: 'example.com/loaded:1', imagePullPolicy: 'Never' }];
    const spec = { nodeName: node, restartPolicy: 'Never', containers };
    await cluster.kubectl(['apply', '--filename=-'], pod(`on-${node}`, spec));
    await succeeded(cluster, `on-${node}`);
  }
  await expect(cluster.killNode('node3')).rejects.toThrow('NODE: got "node3", takes one of node1, node2');
});

test('the control plane accepts more flags, and its programs can be stopped and started', async () => {
  const flags = { apiserver: ['--event-ttl=7m'], 'controller-manager': ['--node-monitor-grace-period=9s'] };
  const cluster = await Cluster.up({ name: 't-two', nodes: 1, flags });
  const running = (await processesMentioning(folderOf('t-two'))).join('\n');
  expect(running).toMatch(/kube-apiserver .* --event-ttl=7m/);
  expect(running).toMatch(/kube-controller-manager .*=15s .*--node-monitor-grace-period=9s/);
  await cluster.stopProgram('etcd');
  await expect(cluster.kubectl(['get', 'nodes', '--request-timeout=2s'])).rejects.toThrow();
  await cluster.stopProgram('apiserver');
  await expect(cluster.kubectl(['version', '--request-timeout=2s'])).rejects.toThrow('was refused');
  for (const name of ['etcd', 'apiserver'] as const) await cluster.startProgram(name);
  await cluster.waitUntilApiServerReady();
  expect(await cluster.kubectl(['get', 'nodes', '--output=name'])).toBe('node/node1');
  await cluster.stopProgram('controller-manager');
  expect(await cluster.programProcesses('controller-manager')).toEqual([]);
  await cluster.startProgram('controller-manager', ['--controllers=*,-job']);
  // It is not there at once, and a moment before it is the shell that starts it.
  await eventually('it runs with all its arguments', async () => {
    const [pid] = await cluster.programProcesses('controller-manager');
    const command = pid === undefined ? '' : await readFile(`/proc/${pid}/cmdline`, 'utf8');
    return /grace-period=9s\0--controllers=\*,-job\0$/.test(command);
  });
});

test('after SIGKILL of all processes, down leaves nothing behind and up works', async () => {
  // Nothing listens there, so `up` fails if it uses the proxy for requests to this machine.
  const proxy = 'http://127.0.0.1:1';
  const env = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, http_proxy: proxy, https_proxy: proxy };
  const up = await execa(process.execPath, [main, 'up', '--name', 't-killed', '--nodes', '1'], { env, reject: false });
  expect([up.exitCode, up.stderr]).toEqual([0, expect.stringContaining('ready after')]);
  const again = await command('up', '--name', 't-killed', '--nodes', '1');
  expect(again.exitCode).toBe(0);
  expect(again.all).not.toContain('certificates');
  const processes = await processesMentioning(folderOf('t-killed'));
  expect(processes.length).toBeGreaterThan(5);
  for (const line of processes) kill(Number(line.split(' ')[0]));
  expect((await command('up', '--name', 't-killed', '--nodes', '1')).exitCode).toBe(0);
  for (const line of await processesMentioning(folderOf('t-killed'))) kill(Number(line.split(' ')[0]));
  expect((await command('down', '--name', 't-killed')).exitCode).toBe(0);
  expect(await tracesOf('t-killed')).toEqual([]);
});

test('a killed `up` does not prevent the next one', async () => {
  const first = command('up', '--name', 't-interrupted', '--nodes', '1');
  await eventually('the API server is being started', async () =>
    existsSync(join(folderOf('t-interrupted'), 'logs/apiserver.log')),
  );
  first.kill('SIGKILL');
  await first;
  expect((await command('up', '--name', 't-interrupted', '--nodes', '1')).exitCode).toBe(0);
  await Cluster.down('t-interrupted');
  expect(await tracesOf('t-interrupted')).toEqual([]);
});

test("a test run's cluster is removed when the run is killed", async () => {
  const holder = execa(process.execPath, [join(import.meta.dirname, 'environment/holds-a-cluster.ts'), 't-orphan'], {
    reject: false,
  });
  await eventually('its cluster is up', async () => (await command('kubeconfig', '--name', 't-orphan')).exitCode === 0);
  holder.kill('SIGKILL');
  await holder;
  await eventually('nothing is left of it', async () => (await tracesOf('t-orphan')).length === 0);
});

test.each([
  [['up', '--nodes', '6'], '--nodes: got 6, takes 1 to 5'],
  [['up', '--nodes', 'two'], '--nodes: got "two", takes 1 to 5'],
  [['up', '--name', 'Bad_Name'], '--name: got "Bad_Name"'],
  [['start'], 'COMMAND: got "start", takes one of up, down'],
  [['up', '--node', '2'], '--node'],
  [['kill-node'], 'kill-node: got 0 operands, takes NODE'],
  [['load'], 'load: got 0 operands, takes IMAGE.tar'],
])('%j is refused: %s', async (args, message) => {
  const { exitCode, all } = await command(...args);
  expect(exitCode).toBe(2);
  expect(all).toContain(message);
});

test('without root, the error says what is needed and what to do instead', async () => {
  // Loads the code as root before it becomes `nobody`, who may not be able to read this folder.
  const script = `
    const { requireRootOnLinux } = await import(${JSON.stringify(join(import.meta.dirname, '../../tools/cluster/errors.ts'))});
    process.setuid(65534);
    try { requireRootOnLinux(); } catch (error) { console.log(error.message); }`;
  const { stdout } = await execa(process.execPath, ['--input-type=module', '--eval', script]);
  expect(stdout).toMatch(
    /^the cluster requires root on Linux, but this is Linux as user 65534\. .* KUBECONFIG .* kind .*\.$/,
  );
});

/** Runs the command as somebody with another, empty cache. */
async function inAnotherCache(...args: readonly string[]): Promise<void> {
  const cache = await mkdtemp(join(tmpdir(), 'echoperator-cache-'));
  try {
    await execa(process.execPath, [main, ...args], { env: { XDG_CACHE_HOME: cache } });
  } finally {
    await rm(cache, { recursive: true });
  }
}

/** Sends a request from the host to an HTTP server in the cluster. @returns its answer */
async function throughPortForward(cluster: Cluster, target: string, port: number): Promise<string> {
  const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  const args = [`--kubeconfig=${cluster.kubeconfigPath}`, 'port-forward', target, `:${port}`];
  const forward = execa(kubectl, args, {
    reject: false,
    env: { NO_PROXY: '*', KUBECACHEDIR: join(folderOf(cluster.name), 'kubectl-cache') },
  });
  try {
    // It listens when it says where, or has ended when it says nothing.
    const said = await Promise.race([once(forward.stdout, 'data'), forward.then(({ stderr }) => stderr)]);
    const local = /127\.0\.0\.1:(\d+) ->/.exec(String(said))?.[1];
    if (local === undefined) throw new Error(`kubectl port-forward: ${said}`);
    return await (await fetch(`http://127.0.0.1:${local}/`)).text();
  } finally {
    forward.kill();
    await forward;
  }
}

/** A docker-archive of the busybox image under another name. */
async function archiveOf(name: string, folder: string): Promise<string> {
  const [busybox = ''] = await baseImageArchives(undefined);
  await mkdir(join(folder, 'content'));
  await execa('tar', ['--extract', '--file', busybox, '--directory', join(folder, 'content')]);
  const manifest = join(folder, 'content/manifest.json');
  const [image] = JSON.parse(await readFile(manifest, 'utf8')) as [object];
  await writeFile(manifest, JSON.stringify([{ ...image, RepoTags: [name] }]));
  const archive = join(folder, 'image.tar');
  await execa('tar', ['--create', '--file', archive, '--directory', join(folder, 'content'), '.']);
  return archive;
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // Its parent's end was its own.
  }
}
