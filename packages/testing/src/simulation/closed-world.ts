import { ChildProcess } from 'node:child_process';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';
import { NotSimulatedError } from './strategy.ts';

type Functions = Record<string, unknown>;

/** A function that does real input or output: its owner, and a description. */
interface RealIo {
  readonly owner: Functions;
  readonly name: string;
  readonly what: string;
}

/** Load the modules with `require`: the names of an import cannot be replaced. */
const load: (module: string) => Functions = createRequire(import.meta.url);
const dns = load('node:dns');
const fs = load('node:fs');

const isDnsQuery = (name: string): boolean => /^(?:lookup|resolve|reverse)/.test(name);

const functionsOf = (owner: Functions, what: string, isMeant: (name: string) => boolean): RealIo[] =>
  Object.keys(owner)
    .filter((name) => typeof owner[name] === 'function' && isMeant(name))
    .map((name) => ({ owner, name, what: `${what}: ${name}` }));

/** Functions that complete asynchronously. A synchronous read of a file is allowed. */
const realIo = (): readonly RealIo[] => [
  { owner: Socket.prototype as never, name: 'connect', what: 'opens a socket' },
  { owner: ChildProcess.prototype as never, name: 'spawn', what: 'starts a process' },
  { owner: load('node:worker_threads'), name: 'Worker', what: 'starts a worker' },
  { owner: load('node:dgram'), name: 'createSocket', what: 'opens a UDP socket' },
  ...functionsOf(dns, 'asks the DNS', isDnsQuery),
  ...functionsOf(dns.promises as never, 'asks the DNS', isDnsQuery),
  ...functionsOf(fs, 'uses a file', (name) => typeof fs[`${name}Sync`] === 'function'),
  ...functionsOf(fs.promises as never, 'uses a file', () => true),
];

/**
 * Refuses real asynchronous input and output, such as sockets, files and workers, because a run with it would not
 * repeat. Each attempt throws, and {@link check} throws the error again, because the operator may retry.
 *
 * It replaces functions of the process until `restore`. They fail only for code for which `isInside` is true. Names
 * that a module imports from `node:fs`, `node:dns` or `node:worker_threads` are replaced in Node, but not where a test
 * runner has copied them, as Jest does for ECMAScript modules.
 */
export class ClosedWorld {
  readonly #isInside: () => boolean;
  readonly #restorers: (() => void)[] = [];
  #attempt: NotSimulatedError | undefined;

  constructor(isInside: () => boolean) {
    this.#isInside = isInside;
  }

  install(): void {
    for (const { owner, name, what } of realIo()) {
      const real = owner[name] as (...args: unknown[]) => unknown;
      const refuse = (): void => {
        if (!this.#isInside()) return;
        const attempt = new NotSimulatedError(
          `the operator ${what}. In a simulation, it can reach only the API server`,
        );
        this.#attempt ??= attempt;
        throw attempt;
      };
      owner[name] = new Proxy(real, {
        apply(target, self, args) {
          refuse();
          return Reflect.apply(target, self, args);
        },
        construct(target, args, newTarget) {
          refuse();
          return Reflect.construct(target, args, newTarget);
        },
      });
      this.#restorers.push(() => {
        owner[name] = real;
      });
    }
    syncBuiltinESMExports();
  }

  restore(): void {
    for (const restore of this.#restorers.splice(0)) restore();
    syncBuiltinESMExports();
  }

  /** @throws the NotSimulatedError of the first attempt */
  check(): void {
    if (this.#attempt !== undefined) throw this.#attempt;
  }
}
