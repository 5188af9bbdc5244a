import { join } from 'node:path';
import { cacheFolder } from '../cache-folder.ts';

/** The demo's cluster: `npm run cluster -- kubeconfig --name demo`. */
export const clusterName = 'demo';
export const nodes = 2;

/** The Helm release, and the namespace that it is installed in. */
export const release = 'echoperator';
export const namespace = 'echoperator';

/** What `helm repo add` calls the chart repository. */
export const chartRepository = 'echoperator';

const repository = join(import.meta.dirname, '../..');
export const chart = join(repository, 'charts/echoperator');
export const example = join(repository, 'examples/echo.yaml');

/** All that the demo leaves on the disk, beside the cluster, its programs and the image. */
export const folder = join(cacheFolder(), 'demo');
