import type { Kind, Logger, Operator } from '@echoperator/runtime';
import type { Client, Connection, Gate } from '@echoperator/runtime/client';
import type { ListedObject } from '../facts.ts';
import type { PerturbationError } from './errors.ts';

/** What a step of a {@link Scenario} uses. The client is a user's: its requests do not pass the proxy. */
export interface ScenarioWorld {
  readonly client: Client;
  /** A new namespace for each run of `perturb`; `default` in a simulation, whose server is new. */
  readonly namespace: string;
}

/** What controllers that use another system than the API server need, and the proxy in front of that system. */
export interface ExternalHooks {
  /** Closes when the operator crashes, stops, or loses its Lease. Each request to the system must pass it. */
  readonly gate: Gate;
  /**
   * A proxy calls this for each write that it receives from the operator, before it forwards it. The kit perturbs it
   * like a write to the API server.
   *
   * @param description equal in each run: `AddPets`
   */
  write(description: string): ExternalWrite;
}

/** What the proxy must do with a write. */
export interface ExternalWrite {
  /**
   * The proxy must wait for it, even if the operator disconnects. True: forward the write. False: discard it and
   * disconnect.
   */
  readonly isForwarded: Promise<boolean>;
  /** The proxy must call it when the response is there. True: deliver the response. False: disconnect instead. */
  respond(): boolean;
}

/**
 * A script of user actions, and the operator that handles them.
 *
 * After each step the kit waits until the operator rests: it has received the last change of each object, and sends
 * nothing. A step may itself wait for a condition, and play a controller or a kubelet. The last step must delete what
 * the first ones created.
 */
export interface Scenario {
  /** Part of the names of its plans. */
  readonly name: string;
  /**
   * The kinds of the objects that users create, the main one first, and that the operator maintains. The operator must
   * watch all of them.
   */
  readonly kinds: readonly Kind[];
  /**
   * Adds the controllers, as in production, but limited to the namespace.
   *
   * @param external needed for other systems than the API server.
   * @returns a function that closes connections to other systems. Default: none.
   */
  addControllers(
    operator: Operator,
    namespace: string,
    external: ExternalHooks,
  ): void | (() => Promise<void>) | Promise<void | (() => Promise<void>)>;
  /** Returns what the operator maintains outside of the cluster for a namespace. It is compared too. */
  external?(namespace: string): Promise<readonly unknown[]>;
  /**
   * Returns a check of the objects of `kinds` that must hold at any time. Each run is checked with one of its own,
   * after each change in the order in which they happened, so it may remember what it has been called with. It returns
   * what is wrong. Not called for `late` and `past`: between a late write, or one of an operator in the past, and its
   * correction, nothing can hold.
   */
  always?(): (objects: readonly ListedObject[]) => string | undefined;
  /** Checks what is external after each of the operator's writes there. Returns what is wrong. */
  alwaysExternal?(external: readonly unknown[]): string | undefined;
  /**
   * Whether the value at a path, such as `Deployment web #1.status.collisionCount`, depends on what other controllers
   * do first. Default: none.
   */
  mayDiffer?(path: string): boolean;
  /**
   * Is called again and again while the kit waits after a step. May play a controller or a kubelet, as the steps may.
   */
  meanwhile?(world: ScenarioWorld): Promise<unknown>;
  /** Replaces random parts of a name: `web-x7k2p` becomes `web-*`. Default: names are not random. */
  canonicalName?(name: string): string;
  /** The user actions, in their order. */
  readonly steps: Readonly<Record<string, (world: ScenarioWorld) => Promise<unknown>>>;
  /**
   * Steps after which everything must be as after an earlier step, apart from generations: `{ 'pod-deleted': 'create'
   * }`. For what the operator restores, and for what it must not change.
   */
  readonly restores?: Readonly<Record<string, string>>;
  /** The steps to perturb. Default: all. For a scenario that begins or ends as another one does. */
  readonly perturbedSteps?: readonly string[];
  /**
   * Whether a step changes the definition of a kind. Around that, the API server may deliver an object without members
   * that the definition before did not have. Therefore `past` and `overtaken` are skipped, and `lastTransitionTime` is
   * not checked. Default false.
   */
  readonly changesDefinitions?: boolean;
  /**
   * Whether the operator races with the steps or with other controllers, so that a run may end without the write to
   * perturb. Default false.
   */
  readonly mayOmitWrites?: boolean;
}

/** Options of {@link perturb}. */
export interface PerturbOptions {
  /** A connection to the API server with administrator permissions. */
  readonly connection: Connection;
  /** The operator's connection, for example with no more permissions than it needs. Default: `connection`. */
  readonly operatorConnection?: Connection;
  readonly scenarios: readonly Scenario[];
  /** The operator's log. */
  readonly log: Logger;
  /**
   * Runs only the plans with these names. A part stands for all plans of a scenario (`pet`), of a step (`pet/create`),
   * or of a write (`pet/create write 1`). A write's description may stand in place of its number: `pet/create patch
   * pets hello/status reply-lost`. Default: all.
   */
  readonly only?: readonly string[];
  /** Selects among these plans by their names, for example a sample. Default: all. */
  readonly select?: (plans: readonly string[]) => readonly string[];
  /** Creates a namespace for a run and returns its name. Default: one without labels. */
  readonly createNamespace?: () => Promise<string>;
  /** Is called for each failed plan at once, because a run may take minutes. */
  readonly onFailure?: (failure: PerturbationError) => void;
  /** How many plans run at a time. Default 4. */
  readonly concurrency?: number;
  /** How long a step of a perturbed run may take, in milliseconds. Default 30,000. */
  readonly timeoutMs?: number;
}
