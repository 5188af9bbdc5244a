import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Cluster } from '../../tools/cluster/index.ts';
import { buildImage } from '../../tools/release/index.ts';
import { originalEchoCrd } from '../integration/environment/original-crds.ts';
import { echo } from './environment/cluster.ts';
import { cluster, namespace, printed, served, setUp, tearDown, uids } from './environment/helm.ts';
import { Release } from './environment/release.ts';

const root = join(import.meta.dirname, '../..');

let release: Release | undefined;

// The image of the pet store is not on the nodes: no other file here runs one.
beforeAll(async () => {
  const { archive } = await buildImage({ image: 'petstore' });
  await (await Cluster.find('e2e')).loadImage(archive);
});

beforeEach(setUp);

afterEach(async () => {
  await tearDown(release);
  release = undefined;
});

test('an installation over the original CRDs and Echos, with the original values, loses nothing', async () => {
  await cluster.apply({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', ...originalEchoCrd });
  await served();
  await cluster.apply(echo('hello-world', namespace, { message: 'Hola, 世界!' }));
  const before = await uids();
  // The file's image comes from a registry that is not here.
  const image = 'image.repository=ghcr.io/echoperator/echoperator,image.pullPolicy=IfNotPresent';
  release = await Release.install(cluster, ['--values', join(root, 'examples/values/original.yaml'), '--set', image]);
  await printed('hello-world');
  expect(await cluster.logOf('hello-world', namespace)).toBe('Hola, 世界!\n');
  expect(await uids()).toEqual(before);
});

test('an uninstallation is refused and lists the Pets while there are any, and succeeds after their deletion', async () => {
  const installed = await Release.install(cluster, [
    ...['--set', 'controllers.pet.enabled=true,petstore.enabled=true,petstore.tls.enabled=false'],
    ...['--set', 'ha.enabled=false'],
  ]);
  release = installed;
  await cluster.apply({
    apiVersion: 'petstore.example.com/v1alpha1',
    kind: 'Pet',
    metadata: { name: 'thor', namespace },
    spec: { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' },
  });
  await cluster.kubectl(['wait', '--for=condition=Ready', 'pet/thor', '--namespace', namespace, '--timeout=90s']);

  await expect(installed.uninstall()).rejects.toThrow('echoperator-uninstall failed');
  const list = await cluster.kubectl(['logs', 'job/echoperator-uninstall', '--namespace', installed.namespace]);
  const [, command = ''] = /^ {2}kubectl (delete .*)$/m.exec(list) ?? [];
  expect(command).toBe(`delete --namespace ${namespace} pets.petstore.example.com thor`);
  await cluster.kubectl([...command.split(' '), '--timeout=60s']);

  // Also deletes its namespace, in which no object has a finalizer any more.
  await installed.uninstall();
  release = undefined;
});

test('an uninstallation after a watched namespace was deleted names the command that goes on', async () => {
  const gone = await cluster.namespace();
  await cluster.kubectl(['apply', '--server-side', '--force-conflicts', `--filename=${join(root, 'crds')}`]);
  const scope = `scope.namespaced=true,ha.enabled=false,watchNamespaces={${namespace},${gone}}`;
  const installed = await Release.install(cluster, ['--set', scope]);
  release = installed;
  await cluster.kubectl(['delete', 'namespace', gone, '--wait', '--timeout=90s']);

  await expect(installed.uninstall()).rejects.toThrow('echoperator-uninstall failed');
  const log = await cluster.kubectl(['logs', 'job/echoperator-uninstall', '--namespace', installed.namespace]);
  expect(log).toContain(`may not list the objects in the namespace "${gone}". If it was deleted`);
  const [, command = ''] = /(uninstall echoperator .*--no-hooks)$/m.exec(log) ?? [];
  await cluster.helm(command.split(' '));
  expect(await cluster.kubectl(['get', 'roles', '--namespace', namespace, '--output=name'])).toBe('');
});

test('two releases that watch different namespaces do not hinder each other, also when one is uninstalled', async () => {
  await using resources = new AsyncDisposableStack();
  const other = await cluster.namespace();
  resources.defer(() => cluster.deleteNamespace(other));
  const watching = (watched: string) => ['--set', `ha.enabled=false,watchNamespaces={${watched}}`];
  const prints = async (name: string, where: string): Promise<void> => {
    await cluster.apply(echo(name, where, { message: where }));
    await cluster.kubectl(['wait', '--for=condition=Ready', `echo/${name}`, '--namespace', where, '--timeout=90s']);
    expect(await cluster.logOf(name, where)).toBe(`${where}\n`);
  };
  release = await Release.install(cluster, watching(namespace));
  const second = await Release.install(cluster, watching(other));
  try {
    await prints('hello', namespace);
    await prints('hello', other);
  } finally {
    await second.uninstall();
  }
  await prints('again', namespace);
});

test('with crds.keep=false an uninstallation deletes the CRDs with their objects', async () => {
  const installed = await Release.install(cluster, ['--set', 'crds.keep=false']);
  release = installed;
  await cluster.apply(echo('doomed', namespace, { message: 'doomed' }));
  await printed('doomed');
  await installed.uninstall();
  release = undefined;
  expect(await cluster.kubectl(['get', 'crds', '--output=name'])).not.toContain('echos.mmontes.io');
});
