import { type AsyncHook, createHook } from 'node:async_hooks';
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestEnvironment } from 'jest-environment-node';

/** What keeps a process alive, by the names that async_hooks gives them. */
const watchedTypes: ReadonlySet<string> = new Set([
  'FSEVENTWRAP',
  'MESSAGEPORT',
  'PIPESERVERWRAP',
  'PIPEWRAP',
  'PROCESSWRAP',
  'SIGNALWRAP',
  'STATWATCHER',
  'TCPSERVERWRAP',
  'TCPWRAP',
  'Timeout',
  'UDPWRAP',
  'WORKER',
]);

/**
 * How long a handle that is being closed may take, in milliseconds: a busy machine needs more than one turn of the
 * loop.
 */
const closingMs = 2_000;

interface Handle {
  readonly type: string;
  /** Where it was made. */
  readonly stack: string;
  readonly resource: WeakRef<{ hasRef?: () => boolean }>;
}

/** Whether this is a worker of jest and not its main process. */
const isWorker = process.env.JEST_WORKER_ID !== undefined && process.send !== undefined;

const die = (): void => {
  process.kill(process.pid, 'SIGKILL');
};

/** A test file has left open what would keep its process alive. */
class OpenHandlesError extends Error {
  override readonly name = 'OpenHandlesError';

  constructor(count: number, where: string) {
    super();
    this.stack = `OpenHandlesError: ${count} left open at the end of the file: ${where}`;
  }
}

/**
 * Node, and a test file fails when it leaves a timer, a connection, a server or a process open: the message says where
 * each was made. Jest itself only prints a warning, without the file's name, and kills the worker.
 */
export default class OpenHandlesEnvironment extends TestEnvironment {
  readonly #handles = new Map<number, Handle>();
  #isOver = false;
  readonly #hook: AsyncHook = createHook({
    trackPromises: false,
    init: (id, type, trigger, resource) => {
      if (this.#isOver || !watchedTypes.has(type)) return;
      const stack = this.#handles.get(trigger)?.stack ?? ownStack();
      if (stack !== undefined) this.#handles.set(id, { type, stack, resource: new WeakRef(resource) });
    },
    destroy: (id) => {
      this.#handles.delete(id);
    },
  });

  override async setup(): Promise<void> {
    await super.setup();
    // Jest's main process was killed. Without this the worker would go on, and so would the programs that it has
    // started.
    if (isWorker) process.on('disconnect', die);
    // Node makes the process's streams when they are first read: before the hook, so that no file answers for them.
    void process.stdout;
    void process.stderr;
    this.#hook.enable();
  }

  override async teardown(): Promise<void> {
    this.#hook.disable();
    // Such a listener keeps its process alive.
    process.off('disconnect', die);
    this.#handles.clear();
    await super.teardown();
  }

  /** After the last hook of the file. A failed test is reported beside it. */
  async handleTestEvent(
    { name }: { readonly name: string },
    { unhandledErrors }: { readonly unhandledErrors: unknown[] },
  ): Promise<void> {
    if (name !== 'run_finish') return;
    this.#isOver = true;
    for (let waitedMs = 0; waitedMs < closingMs && this.#open().length > 0; waitedMs += 20) await sleep(20);
    const stacks = Map.groupBy(this.#open(), ({ type, stack }) => `${type}\n${stack}`);
    for (const [where, handles] of stacks) unhandledErrors.push(new OpenHandlesError(handles.length, where));
  }

  #open(): readonly Handle[] {
    return [...this.#handles.values()].filter(({ resource }) => {
      const handle = resource.deref();
      return handle !== undefined && (handle.hasRef?.() ?? true);
    });
  }
}

/** A handle in Node's diagnostic report. */
interface ReportedHandle {
  readonly type: string;
  readonly is_active: boolean;
  readonly is_referenced: boolean;
}

/** Longer than a poll pauses, and shorter than the 500 ms that jest leaves a worker between SIGTERM and SIGKILL. */
const explainingMs = 350;

/**
 * Jest sends SIGTERM to a worker that does not exit: the worker says what keeps it alive. Without it the cause would be
 * lost.
 */
function explainHangingWorker(): void {
  // What polls sets its next timer meanwhile.
  const stacks = new Set<string>();
  const hook = createHook({
    init: (_, type) => {
      if (type === 'Timeout') stacks.add(ownStack() ?? '');
    },
  });
  setTimeout(() => {
    hook.disable();
    if (stacks.size > 0) writeSync(2, `It sets timers:\n${[...stacks].join('\n\n')}\n`);
    process.exit(1);
  }, explainingMs);
  hook.enable();
  // Without the names of the hosts, which the report would look up. Node's types lack this property.
  const report = Object.assign(process.report, { excludeNetwork: true });
  const { libuv } = report.getReport() as unknown as { readonly libuv: readonly ReportedHandle[] };
  const handles = libuv
    .filter((handle) => handle.is_active && handle.is_referenced)
    .map((handle) => JSON.stringify(handle));
  const resources = process.getActiveResourcesInfo().join(', ');
  writeSync(
    2,
    `Jest ended worker ${process.pid}, which did not exit. It waits for: ${resources}\n${handles.join('\n')}\n`,
  );
}

if (isWorker) process.once('SIGTERM', explainHangingWorker);

/**
 * Where the caller's caller is called from, Node's own lines left out; undefined within jest, which has timers of its
 * own.
 */
function ownStack(): string | undefined {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 40;
  const lines = (new Error().stack ?? '').split('\n').slice(3);
  Error.stackTraceLimit = stackTraceLimit;
  const foreign = lines.filter((line) => !/\(node:|at node:/.test(line));
  if (/node_modules\/(?:@jest\/|jest)/.test(foreign[0] ?? '')) return undefined;
  return foreign.filter((line) => !/node_modules\/(?:@jest\/|jest)/.test(line)).join('\n');
}
