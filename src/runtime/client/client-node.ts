/**
 * All that is used of @kubernetes/client-node, and the YAML parser that it brings, in a module of its own: imported on
 * demand, a bundler keeps this alone.
 */
export { KubeConfig } from '@kubernetes/client-node';
export { load as parseYaml } from 'js-yaml';
