/**
 * The only parts of @kubernetes/client-node that the runtime uses, and its YAML parser. This module is loaded with
 * `import()`, so a bundler keeps only these exports.
 */
export { KubeConfig } from '@kubernetes/client-node';
export { load as parseYaml } from 'js-yaml';
