import type { Plugin } from 'esbuild';

const library = 'undici/lib';

/** What the program may import from undici, each from the module that has it. */
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
// For the modules of @kubernetes/client-node that are left out of the bundle in the end.
export const { fetch } = globalThis;
`;

/**
 * Leaves out of the bundle what a client of the API server never runs, and what undici's entry loads all the same:
 * fetch, WebSocket, caches, mocks; the HTTP parser for processors without the SIMD that WebAssembly asks for (SSE4.1 on
 * amd64, of 2008), on which the bundle therefore does not run; an experimental second parser; HTTP/2, which the transport
 * turns off. Each byte of it would be read at every start.
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
