/** Starts one of each program that tests start, reports it on standard output, and runs until it is killed. */
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { startControlPlane } from '../../../testkit/control-plane.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../../testkit/pet-store-process.ts';
import { PostgresServer } from '../../../testkit/postgres-server.ts';

const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'started-'));
const { config } = await startControlPlane(folder, [join(import.meta.dirname, '../../../crds')], { kwok: true });
await OperatorProcess.start(config.kubeconfigPath);
await PetStoreProcess.start();
await PostgresServer.start();
console.log('started');
