import { join } from 'node:path';
import type { Plugin } from 'esbuild';

const packageName = '@kubernetes/client-node';

/**
 * Declares all modules of @kubernetes/client-node free of side effects, which its package.json does not. esbuild then
 * omits the unused parts of its generated API, which is nearly all of it.
 */
export const leanClientNode: Plugin = {
  name: 'lean-client-node',
  setup(build) {
    build.onResolve({ filter: new RegExp(`^${packageName}$`) }, async ({ path, resolveDir, kind, pluginData }) => {
      if (pluginData === packageName) return undefined;
      const entry = await build.resolve(path, { resolveDir, kind, pluginData: packageName });
      return { ...entry, sideEffects: false };
    });
    // The package's imports contain complete file names. Resolving these thousands of files with esbuild would take
    // seconds.
    build.onResolve({ filter: /^\.\.?\/.*\.js$/ }, ({ path, importer, resolveDir }) =>
      importer.includes(`/node_modules/${packageName}/`)
        ? { path: join(resolveDir, path), sideEffects: false }
        : undefined,
    );
  },
};
