import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { type ImageRegistry, startImageRegistry } from '../../testkit/image-registry.ts';
import {
  alone,
  first,
  helmOf,
  highlyAvailable,
  off,
  refusal,
  setUp,
  state,
  tearDown,
  uninstallAll,
  upgrade,
} from './environment/releases.ts';
import { chart, everyHelm } from './helm.ts';

let folder: string;
let version: string;

/** The time to build the registry, if no earlier run has. */
const buildMs = 600_000;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oci-registry-'));
  ({ version } = parse(await readFile(join(chart, 'Chart.yaml'), 'utf8')) as { readonly version: string });
  await setUp();
}, buildMs);
afterEach(() => uninstallAll());
afterAll(async () => {
  await tearDown();
  await rm(folder, { recursive: true, force: true });
});

describe.each(everyHelm)('an OCI registry, by %s', (name) => {
  let registry: ImageRegistry;
  beforeAll(async () => {
    registry = await startImageRegistry({ folder });
  }, buildMs);
  afterAll(async () => registry?.[Symbol.asyncDispose]());

  test('takes the chart, from which a release is installed and upgraded', async () => {
    const charts = `oci://${registry.address}/charts`;
    const fromRegistry = await helmOf(name, `${charts}/echoperator`);
    const release = { namespace: first, flags: ['--plain-http', `--version=${version}`] };
    expect(await refusal(upgrade(fromRegistry, release))).toContain('not found');
    expect(await refusal(fromRegistry.showChart(version))).toContain('not found');

    const helm = await helmOf(name);
    const said = await helm.push(await helm.package(folder), charts);
    // The release workflow signs the digest in this line.
    const [, digest] = /^Digest: (sha256:[0-9a-f]{64})$/m.exec(said) ?? [];
    const manifest = await fetch(`http://${registry.address}/v2/charts/echoperator/manifests/${version}`, {
      headers: { accept: 'application/vnd.oci.image.manifest.v1+json' },
    });
    await manifest.text();
    expect(manifest.headers.get('docker-content-digest')).toBe(digest);
    // And in this one, if the version is there.
    expect((await fromRegistry.showChart(version)).split('\n')).toContain(`Digest: ${digest}`);

    await upgrade(fromRegistry, release);
    expect(await state(first)).toEqual(highlyAvailable);
    await upgrade(fromRegistry, { ...release, values: off });
    expect(await state(first)).toEqual(alone);
  });
});
