import { join } from 'node:path';
import { cacheFolder } from '../cache-folder.ts';

/** The name of the demo's cluster, as in `npm run cluster -- kubeconfig --name demo`. */
export const clusterName = 'demo';
export const nodes = 2;

/** The Helm release and its namespace. */
export const release = 'echoperator';
export const namespace = 'echoperator';

/** The name of the chart repository in Helm. */
export const chartRepository = 'echoperator';

const repository = join(import.meta.dirname, '../..');
export const chart = join(repository, 'charts/echoperator');
export const example = join(repository, 'examples/echo.yaml');

/** The demo's folder on the disk. The cluster, its programs and the image have their own. */
export const folder = join(cacheFolder(), 'demo');
