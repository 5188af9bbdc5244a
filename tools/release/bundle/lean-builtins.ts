import { isBuiltin } from 'node:module';
import type { Plugin } from 'esbuild';

const namespace = 'builtin';

/**
 * Has the bundle take Node's own modules by `process.getBuiltinModule`. An import makes Node read every export of the
 * module to link it, and some of those are getters that load what nobody asked for: `import 'node:http'` brings a whole
 * fetch and WebSocket with it, 16 MB of resident memory where the module itself needs 4.
 */
export const leanBuiltins: Plugin = {
  name: 'lean-builtins',
  setup(build) {
    build.onResolve({ filter: /^[a-z]/ }, ({ path }) =>
      isBuiltin(path) ? { path: path.replace(/^node:/, ''), namespace, sideEffects: false } : undefined,
    );
    build.onLoad({ filter: /.*/, namespace }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(`node:${path}`)});`,
      loader: 'js',
    }));
  },
};
