import { ChildProcess } from 'node:child_process';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';
import { NotSimulatedError } from './strategy.ts';

type Functions = Record<string, unknown>;

/** A function that does real input or output, where it is called, and what it does. */
interface RealIo {
  readonly owner: Functions;
  readonly name: string;
  readonly what: string;
}

/** Not imported: the names of an import cannot be replaced. */
const load: (module: string) => Functions = createRequire(import.meta.url);
const dns = load('node:dns');
const fs = load('node:fs');

const isQuestion = (name: string): boolean => /^(?:lookup|resolve|reverse)/.test(name);

const functionsOf = (owner: Functions, what: string, isMeant: (name: string) => boolean): RealIo[] =>
  Object.keys(owner)
    .filter((name) => typeof owner[name] === 'function' && isMeant(name))
    .map((name) => ({ owner, name, what: `${what}: ${name}` }));

/** What ends in its own time. A synchronous read of a file takes none. */
const realIo = (): readonly RealIo[] => [
  { owner: Socket.prototype as never, name: 'connect', what: 'opens a socket' },
  { owner: ChildProcess.prototype as never, name: 'spawn', what: 'starts a process' },
  { owner: load('node:worker_threads'), name: 'Worker', what: 'starts a worker' },
  { owner: load('node:dgram'), name: 'createSocket', what: 'opens a UDP socket' },
  ...functionsOf(dns, 'asks the DNS', isQuestion),
  ...functionsOf(dns.promises as never, 'asks the DNS', isQuestion),
  ...functionsOf(fs, 'uses a file', (name) => typeof fs[`${name}Sync`] === 'function'),
  ...functionsOf(fs.promises as never, 'uses a file', () => true),
];

/**
 * Refuses real input and output that ends in its own time, such as sockets, files and workers: a run would not repeat. Each attempt throws,
 * and {@link check} throws it again, because the operator may retry.
 *
 * It replaces functions of the process until `restore`, and they fail only for code of which `isInside` is true. Names that a module has
 * imported from `node:fs`, `node:dns` or `node:worker_threads` are replaced in Node, but not where a test runner has copied them, as Jest
 * does for ECMAScript modules.
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

  /** @throws NotSimulatedError of the first attempt */
  check(): void {
    if (this.#attempt !== undefined) throw this.#attempt;
  }
}
