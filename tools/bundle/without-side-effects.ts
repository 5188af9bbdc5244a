import type { Plugin } from 'esbuild';

/**
 * Tells esbuild that none of a package's modules does anything on import, so that what is not used of it is left out,
 * where the package does not say so itself.
 */
export function withoutSideEffects(packageName: string): Plugin {
  const resolved = Symbol('already resolved');
  const inPackage = `/node_modules/${packageName}/`;
  return {
    name: `without-side-effects:${packageName}`,
    setup(build) {
      build.onResolve({ filter: /.*/ }, async ({ path, importer, resolveDir, kind, pluginData, with: attributes }) => {
        const concerned = path === packageName || (path.startsWith('.') && importer.includes(inPackage));
        if (pluginData === resolved || !concerned) return undefined;
        const result = await build.resolve(path, {
          importer,
          resolveDir,
          kind,
          pluginData: resolved,
          with: attributes,
        });
        return { ...result, sideEffects: false };
      });
    },
  };
}
