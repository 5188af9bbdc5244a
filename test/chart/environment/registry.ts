import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { dieWithParent } from '../../../testkit/die-with-parent.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { freePorts } from '../../../testkit/free-ports.ts';
import { ensureBinaries } from '../../../tools/programs/index.ts';

/** An OCI registry without TLS that keeps everything in memory. */
export interface Registry extends AsyncDisposable {
  /** Host and port. */
  readonly address: string;
}

/** @param folder for its configuration */
export async function startRegistry(folder: string): Promise<Registry> {
  const [port] = await freePorts();
  const address = `127.0.0.1:${port}`;
  const configuration = join(folder, 'registry.yaml');
  const http = { addr: address };
  await writeFile(configuration, stringify({ version: 0.1, log: { level: 'warn' }, storage: { inmemory: {} }, http }));
  const program = (await ensureBinaries(['registry'])).get('registry') ?? '';
  // Without traces, which it would send to a collector on this machine.
  const env = { OTEL_TRACES_EXPORTER: 'none' };
  const child = execa(...dieWithParent(program, [configuration]), { all: true, env, reject: false });
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    await child;
  };
  const early = child.then(({ all }) => {
    throw new Error(`the registry ended before it was ready: ${all}`);
  });
  try {
    const isReady = () => fetch(`http://${address}/v2/`).then(({ ok }) => ok);
    await Promise.race([early, eventually('the registry answers', isReady)]);
  } catch (error) {
    await stop();
    throw error;
  }
  early.catch(() => {});
  return { address, [Symbol.asyncDispose]: stop };
}
