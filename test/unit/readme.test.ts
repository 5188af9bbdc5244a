import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { codeBlocks } from '../../testkit/markdown.ts';
import { ScriptedServer } from './environment/scripted-server.ts';

const root = join(import.meta.dirname, '../..');

let folder: string;
let server: ScriptedServer;
const ended = new AbortController();
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'echoperator-readme-'));
  server = await ScriptedServer.start();
});
afterEach(async () => {
  ended.abort();
  await server.close();
  await rm(folder, { recursive: true });
});

const greetingOf = (name: string) => ({
  metadata: { name, namespace: 'default', uid: `uid-${name}`, resourceVersion: '5', generation: 1 },
  spec: { who: 'you' },
});
const configMapPath = (name: string): string => `/api/v1/namespaces/default/configmaps/${name}`;

test('the operator of the README writes a ConfigMap, and reports that, a taken name and a refusal', async () => {
  const [program = ''] = codeBlocks(await readFile(join(root, 'README.md'), 'utf8')).flatMap(({ language, text }) =>
    language === 'ts' ? [text] : [],
  );
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  await writeFile(join(folder, 'greeter.ts'), program);
  const kubeconfig = {
    clusters: [{ name: 'here', cluster: { server: server.connection.server.origin } }],
    users: [{ name: 'me', user: {} }],
    contexts: [{ name: 'main', context: { cluster: 'here', user: 'me' } }],
    'current-context': 'main',
  };
  await writeFile(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig));
  const env = { KUBECONFIG: join(folder, 'kubeconfig') };
  const operator = execa(process.execPath, ['greeter.ts'], {
    cwd: folder,
    env,
    reject: false,
    cancelSignal: ended.signal,
    // By default, execa kills a process 5 s after SIGTERM. On a busy machine this one needs longer.
    forceKillAfterDelay: false,
  });

  const greetings = ['written', 'taken', 'refused'].map(greetingOf);
  const foreign = { metadata: { name: 'taken', namespace: 'default', uid: 'uid-foreign', resourceVersion: '6' } };
  (await server.next({ path: '/apis/example.com/v1/greetings', watch: false })).list('10', greetings);
  (await server.next({ path: '/api/v1/configmaps', watch: false })).list('10', [foreign]);
  const request = await server.next({ method: 'PATCH', path: configMapPath('written') });
  expect(request.body).toMatchObject({
    data: { text: 'Hello, you!' },
    metadata: { ownerReferences: [{ uid: 'uid-written' }] },
  });
  const sent = request.body as { readonly metadata: object };
  request.json(201, { ...sent, metadata: { ...sent.metadata, uid: 'uid-written-map', resourceVersion: '11' } });
  (await server.next({ method: 'PATCH', path: configMapPath('refused') })).refuse(403, 'Forbidden');
  const reported = async ({ metadata, ...rest }: ReturnType<typeof greetingOf>): Promise<string | undefined> => {
    const path = `/apis/example.com/v1/namespaces/default/greetings/${metadata.name}/status`;
    const write = await server.next({ method: 'PATCH', path });
    const { status } = write.body as {
      readonly status: { readonly conditions: readonly { readonly reason: string }[] };
    };
    write.json(200, { metadata: { ...metadata, resourceVersion: '20' }, ...rest, status });
    return status.conditions[0]?.reason;
  };
  expect(await Promise.all(greetings.map(reported))).toEqual(['Written', 'NameTaken', 'Refused']);
  operator.kill('SIGTERM');
  const { exitCode, stderr } = await operator;
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
});
