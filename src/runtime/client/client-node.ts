/** All that is used of @kubernetes/client-node, in a module of its own: imported on demand, a bundler keeps this alone. */
export { KubeConfig } from '@kubernetes/client-node';
