/** Starts one of each program that tests start, reports it on standard output, and runs until it is killed. */
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiServer } from '../../../src/runtime/testing/index.ts';
import { apiServerPrograms } from '../../../testkit/api-server-programs.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../../testkit/pet-store-process.ts';
import { PostgresServer } from '../../../testkit/postgres-server.ts';

const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'started-'));
const server = await ApiServer.start({
  assets: await apiServerPrograms(folder),
  folder,
  crds: [join(import.meta.dirname, '../../../crds')],
});
await OperatorProcess.start(server.kubeconfig);
await PetStoreProcess.start();
await PostgresServer.start();
console.log('started');
