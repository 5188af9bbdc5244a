import type { Plugin } from 'esbuild';

const library = 'undici/lib';

/** The parts of undici that a program may import. */
const entry = `
import Dispatcher from '${library}/dispatcher/dispatcher.js';
import request from '${library}/api/api-request.js';
Object.assign(Dispatcher.prototype, { request });
export { default as Agent } from '${library}/dispatcher/agent.js';
export { default as Client } from '${library}/dispatcher/client.js';
export { default as EnvHttpProxyAgent } from '${library}/dispatcher/env-http-proxy-agent.js';
export { default as Pool } from '${library}/dispatcher/pool.js';
export { default as ProxyAgent } from '${library}/dispatcher/proxy-agent.js';
export { default as errors } from '${library}/core/errors.js';
export { default as buildConnector } from '${library}/core/connect.js';
export { Dispatcher };
// Imported by modules of @kubernetes/client-node that the bundle omits in the end.
export const { fetch } = globalThis;
`;

/**
 * Omits the parts of undici that a client of the API server never runs, because Node would read them at every start:
 * fetch, WebSocket, caches and mocks; HTTP/2, which the transport disables; an experimental second HTTP parser; and the
 * HTTP parser for processors without WebAssembly SIMD. The bundle therefore requires SSE4.1 on amd64 (since 2008).
 */
export const leanUndici: Plugin = {
  name: 'lean-undici',
  setup(build) {
    build.onResolve({ filter: /^undici$/ }, () => ({ path: 'undici', namespace: 'lean' }));
    build.onLoad({ filter: /.*/, namespace: 'lean' }, () => ({ contents: entry, resolveDir: import.meta.dirname }));
    build.onResolve({ filter: /^undici\/lib\// }, async ({ path, resolveDir, kind, pluginData }) => {
      if (pluginData === library || path.includes('dispatcher/dispatcher.js')) return undefined;
      return { ...(await build.resolve(path, { resolveDir, kind, pluginData: library })), sideEffects: false };
    });
    build.onLoad({ filter: /\/undici\/lib\/(milo\/(no-)?simd|llhttp\/llhttp-wasm)\.js$/ }, () => ({
      contents: 'module.exports = undefined;',
    }));
    build.onLoad({ filter: /\/undici\/lib\/dispatcher\/client-h2\.js$/ }, () => ({
      contents: `module.exports = () => { throw new Error('HTTP/2 is not part of this bundle'); };`,
    }));
  },
};
