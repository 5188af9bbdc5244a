import { join } from 'node:path';
import type { Plugin } from 'esbuild';

const packageName = '@kubernetes/client-node';

/**
 * Tells esbuild that no module of @kubernetes/client-node does anything on import, which the package does not say
 * itself: then what is not used of its generated API, nearly all of it, is left out.
 */
export const leanClientNode: Plugin = {
  name: 'lean-client-node',
  setup(build) {
    build.onResolve({ filter: new RegExp(`^${packageName}$`) }, async ({ path, resolveDir, kind, pluginData }) => {
      if (pluginData === packageName) return undefined;
      const entry = await build.resolve(path, { resolveDir, kind, pluginData: packageName });
      return { ...entry, sideEffects: false };
    });
    // Its own imports name whole files. To ask esbuild for each of these thousands would take seconds.
    build.onResolve({ filter: /^\.\.?\/.*\.js$/ }, ({ path, importer, resolveDir }) =>
      importer.includes(`/node_modules/${packageName}/`)
        ? { path: join(resolveDir, path), sideEffects: false }
        : undefined,
    );
  },
};
