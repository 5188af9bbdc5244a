import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiServer } from '@echoperator/testing';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { apiServerPrograms } from '../../../../testkit/api-server-programs.ts';
import { freePorts } from '../../../../testkit/free-ports.ts';
import { SubjectProcess } from './subject-process.ts';
import { World } from './world.ts';

/** Shared by the tests that stop an API server: their own server, and a subject per test. */

export const namespace = 'default';
export let folder: string;
export let server: ApiServer;
export let client: HttpClient;
export let world: World;
export let heapBefore: number;
let transport: Transport;
let subject: SubjectProcess | undefined;

export async function setUp(): Promise<void> {
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'faults-'));
  const [port] = await freePorts();
  server = await ApiServer.start({
    assets: await apiServerPrograms(folder),
    folder,
    port,
    crds: [join(import.meta.dirname, '../../../../crds')],
    // On SIGTERM an API server waits for open watches, so it is killed after this time.
    stopTimeoutMs: 1_000,
  });
  transport = new Transport(server.connection, { userAgent: 'test' });
  client = new HttpClient(transport, 'test');
  world = new World(client, namespace);
  await world.populate();
}

export async function tearDown(): Promise<void> {
  await transport.close();
  await server.close();
  await rm(folder, { recursive: true });
}

/** Starts a subject and returns when its caches contain the world and a first change. {@link stopSubject} stops it. */
export async function startSubject(connection = server.connection, rest: object = {}): Promise<SubjectProcess> {
  subject = await SubjectProcess.start({ server: connection.server.href, tls: connection.tls, namespace, ...rest });
  await world.converge(subject);
  await world.change();
  await world.converge(subject);
  heapBefore = await subject.ask('heap');
  return subject;
}

export async function stopSubject(): Promise<void> {
  await subject?.stop();
  subject = undefined;
}
