import { join } from 'node:path';
import type { Kind } from '@echoperator/runtime';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { objectPath } from '../../../packages/runtime/src/client/resource-path.ts';
import { definitionOf } from '../../../src/commands/crds.ts';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { kinds } from '../../../src/operator.ts';
import { eventually } from '../../../testkit/eventually.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { ExternalPrograms } from './external-systems.ts';
import {
  cachedKinds,
  type HostileObject,
  harmlessObject,
  hostileObjects,
  ownerOf,
  Schemas,
  smallObject,
  store,
} from './hostile-objects.ts';
import { type Measured, MeasuredOperator, StuckError } from './measured-operator.ts';
import { OwnServer } from './own-server.ts';
import { sampleOf } from './perturbation-sample.ts';
import { RawRequests } from './raw-requests.ts';
import { withoutBounds } from './worst-values.ts';

/**
 * The longest pause of the event loop that a hostile object may cause, as a multiple of a harmless one's, and in
 * milliseconds.
 */
const maxRatio = 3;
const maxPauseMs = 1000;
/**
 * A shorter pause never fails, because it may be the machine's: the operator shares it with the API server and the
 * test.
 */
const noiseMs = 150;
/** Within this time another namespace's Echo is served. */
const maxEchoMs = 5000;
/** After this time the operator counts as stuck. */
const stuckAfterMs = 20_000;

/** Which objects {@link HostileTrial.run} tries, of those that the API server accepts. */
export interface Choice {
  /** Those of these properties always: `PodSet spec.template.spec`. */
  readonly known: readonly string[];
  /** How many others of a kind. */
  readonly perKind: (kind: Kind) => number;
  /** Default: all that the operator caches. */
  readonly tried?: readonly Kind[];
  /** Which others: always the same ones for a number. */
  readonly seed: number;
}

/** An object that the operator did not bear. */
export interface Failure {
  readonly object: string;
  readonly problem: string;
}

const excessiveEcho = (namespace: string): string =>
  JSON.stringify({
    apiVersion: `${Echo.group}/${Echo.version}`,
    kind: Echo.kind,
    metadata: { name: 'excessive', namespace },
    spec: { message: 'x'.repeat(5000) },
  });

/** The properties whose objects have stopped an operator. */
export const formerlyFatal: readonly string[] = [
  'ScheduledEcho spec.schedule',
  'PodSet spec.template.spec',
  'BookStore spec.bookApp.env',
  'StatefulSet spec.template.metadata.managedFields[].fieldsV1',
];

const limitOf = (harmlessMs: number): number => Math.min(Math.max(maxRatio * harmlessMs, noiseMs), maxPauseMs);

const describe = ({ kind, property, value }: HostileObject): string => `${kind.kind} ${property}: ${value}`;

type Change = <T>(schema: T) => T;

async function applyDefinitions(cluster: TestCluster, change: Change): Promise<void> {
  for (const kind of kinds) {
    await cluster.client.apply(CustomResourceDefinition, change(definitionOf(kind, 'dev')), { force: true });
  }
}

/** An operator with all controllers, an API server whose definitions have no bounds, and the objects to try on them. */
export class HostileTrial implements AsyncDisposable {
  /** The longest pause and the slowest Echo by kind, and the pause for a harmless object. */
  readonly figures = new Map<
    string,
    { harmlessMs: number; pauseMs: number; worst: string; echoMs: number; tried: number; refused: number }
  >();
  readonly #resources: AsyncDisposableStack;
  readonly #cluster: TestCluster;
  readonly #raw: RawRequests;
  readonly #operator: MeasuredOperator;
  readonly #hostile: string;
  readonly #owners = new Map<string, string>();
  #names = 0;
  /** What the installed definitions differ in from those of this version. */
  #change: Change = withoutBounds;

  private constructor(
    resources: AsyncDisposableStack,
    options: { cluster: TestCluster; raw: RawRequests; operator: MeasuredOperator; hostile: string },
  ) {
    this.#resources = resources;
    this.#cluster = options.cluster;
    this.#raw = options.raw;
    this.#operator = options.operator;
    this.#hostile = options.hostile;
  }

  static async start(): Promise<HostileTrial> {
    await using resources = new AsyncDisposableStack();
    const { cluster, folder } = resources.use(await OwnServer.start());
    const raw = resources.use(await RawRequests.connect(cluster.kubeconfig));
    const external = resources.use(await ExternalPrograms.start(join(folder, 'external')));
    await applyDefinitions(cluster, withoutBounds);
    const hostile = await cluster.namespace();
    const operator = new MeasuredOperator(cluster, await cluster.namespace(), external.settings);
    resources.defer(async () => void (await operator.stop('SIGKILL')));
    await eventually('the kinds are served', async () => {
      for (const kind of kinds) await cluster.client.list(kind, { namespace: hostile });
      return true;
    });
    await operator.start();
    const trial = new HostileTrial(resources.move(), { cluster, raw, operator, hostile });
    await trial.#createOwners();
    return trial;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }

  get kindsTried(): readonly string[] {
    return [...this.figures.keys()];
  }

  /** The uids of the objects that control the hostile ones. */
  async #createOwners(): Promise<void> {
    for (const kind of kinds) {
      const key = { namespace: this.#hostile, name: 'owner' };
      await store(this.#raw, smallObject(kind, this.#hostile), { ...key, owner: '' });
      this.#owners.set(kind.kind, (await this.#cluster.client.get(kind, key)).metadata.uid);
    }
  }

  /** Installs this version's definitions, and waits until the API server validates by them. */
  async installBounds(): Promise<void> {
    await applyDefinitions(this.#cluster, (schema) => schema);
    this.#change = (schema) => schema;
    const tooLong = { ...smallObject(Echo, this.#hostile), json: excessiveEcho(this.#hostile) };
    await eventually('the bounds are in force', async () => (await this.#refusal(tooLong)) !== undefined);
  }

  /** Tries objects of each kind one after the other. Returns those that the operator did not bear. */
  async run({ known, perKind, seed, tried = cachedKinds() }: Choice): Promise<readonly Failure[]> {
    const failures: Failure[] = [];
    const schemas = await Schemas.read(this.#raw);
    const lease = await this.#operator.lease();
    for (const kind of tried) {
      const all = await hostileObjects(schemas, kind, this.#hostile, this.#change);
      const isKnown = (object: HostileObject) => known.includes(`${kind.kind} ${object.property}`);
      const others = new Map(all.filter((each) => !isKnown(each)).map((each) => [describe(each), each]));
      const inOrder = sampleOf([...others.keys()], seed, others.size).flatMap((name) => others.get(name) ?? []);
      const figures = {
        harmlessMs: await this.#harmlessPauseMs(kind),
        pauseMs: 0,
        worst: '',
        echoMs: 0,
        tried: 0,
        refused: 0,
      };
      this.figures.set(kind.kind, figures);
      let left = perKind(kind);
      for (const object of [...all.filter(isKnown), ...inOrder]) {
        if (left === 0 && !isKnown(object)) break;
        const measured = await this.#try(object, figures.harmlessMs);
        if (measured === undefined) {
          figures.refused += 1;
          continue;
        }
        figures.tried += 1;
        if (!isKnown(object)) left -= 1;
        if ('problem' in measured) failures.push(measured);
        else {
          if (measured.pauseMs > figures.pauseMs)
            Object.assign(figures, { pauseMs: measured.pauseMs, worst: describe(object) });
          figures.echoMs = Math.max(figures.echoMs, measured.echoMs);
        }
      }
    }
    const after = await this.#operator.lease();
    if (failures.length === 0 && after !== lease)
      failures.push({ object: 'Lease', problem: `${lease} became ${after}` });
    return failures;
  }

  async #harmlessPauseMs(kind: Kind): Promise<number> {
    const pauses: number[] = [];
    for (let times = 0; times < 2; times += 1) {
      const measured = await this.#measure(harmlessObject(kind, this.#hostile));
      if (measured === undefined) throw new Error(`the API server refuses the harmless ${kind.kind}`);

      pauses.push(measured.pauseMs);
    }
    return Math.max(...pauses);
  }

  /**
   * Undefined if the API server refuses the object. A pause may be the machine's, so it counts if it comes thrice, each
   * time beside a harmless object whose pause is short.
   */
  async #try(object: HostileObject, harmlessMs: number): Promise<Measured | Failure | undefined> {
    let limitMs = limitOf(harmlessMs);
    const problems: string[] = [];
    while (problems.length < 3) {
      try {
        if (problems.length > 0) limitMs = limitOf(await this.#harmlessPauseMs(object.kind));
        const measured = await this.#measure(object);
        if (measured === undefined) return undefined;
        const { pauseMs, echoMs } = measured;
        if (pauseMs <= limitMs && echoMs <= maxEchoMs) return measured;
        problems.push(
          `paused ${Math.round(pauseMs)} ms (limit ${Math.round(limitMs)}), Echo after ${Math.round(echoMs)} ms`,
        );
      } catch (error) {
        if (!(error instanceof StuckError)) throw error;
        problems.push(error.message);
        const output = await this.#operator.stop('SIGKILL');
        problems.push(output.slice(-600));
        await this.#operator.start();
        break;
      }
    }
    return { object: describe(object), problem: problems.join('; ') };
  }

  async #measure(object: HostileObject): Promise<Measured | undefined> {
    const { kind } = object;
    const names: string[] = [];
    const create = async (each: HostileObject): Promise<string | undefined> => {
      const name = `o${this.#names++}`;
      names.push(name);
      const owner = this.#owners.get(ownerOf(kind)?.kind ?? '') ?? '';
      return store(this.#raw, each, { namespace: this.#hostile, name, owner });
    };
    let refusal: string | undefined;
    try {
      const mark = async () => void (await create(smallObject(kind, this.#hostile)));
      // Most are refused: that needs no measurement.
      refusal = await this.#refusal(object);
      if (refusal !== undefined) return undefined;
      const act = async () => {
        refusal = await create(object);
      };
      const measured = await this.#operator.measure(act, { kinds: [kind], mark, limitMs: stuckAfterMs });
      return refusal === undefined ? measured : undefined;
    } finally {
      for (const name of names) await this.#delete(kind, name);
    }
  }

  /** What the API server has against the object, if it has a body that it can refuse without storing it. */
  async #refusal(object: HostileObject): Promise<string | undefined> {
    if (object.property.startsWith('status')) return undefined;
    const name = `o${this.#names++}`;
    const owner = this.#owners.get(ownerOf(object.kind)?.kind ?? '') ?? '';
    return store(this.#raw, object, { namespace: this.#hostile, name, owner, isDryRun: true });
  }

  async #delete(kind: Kind, name: string): Promise<void> {
    const path = objectPath(kind, { namespace: this.#hostile, name });
    await this.#raw.send('DELETE', `${path}?gracePeriodSeconds=0&propagationPolicy=Background`);
    await this.#raw.send('PATCH', path, '{"metadata":{"finalizers":null}}');
  }
}
