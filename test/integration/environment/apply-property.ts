import { Applier, type Client, type Kind, type KubeObject, keyOf, type Manifest } from '@echoperator/runtime';
import { ApiError, kubeconfigConnection } from '@echoperator/runtime/client';
import { expect } from '@jest/globals';
import { Store } from '../../../packages/runtime/src/cache/store.ts';
import { HttpClient } from '../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../packages/runtime/src/client/transport.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { type ChildExample, childExamples } from './child-examples.ts';
import { RandomEdits, randomNumbers } from './random-edits.ts';

/** The API server refuses most random edits. After this many edits of an object, a new one is created. */
const maxRefusals = 40;
/** Accepted edits accumulate on an object. After this many, a new one is created. */
const editsPerObject = 12;

const applyManager = 'applier';

/** The results of the edits. */
export interface EditCounts {
  unchanged: number;
  applied: number;
  /** Applies without effect, because the remaining difference was not known yet. */
  probed: number;
  refused: number;
}

/**
 * Makes random edits of children of every kind as another field manager, and compares the result of {@link
 * Applier.apply} with a dry run: `unchanged` means that an apply changes nothing, and an apply without effect is not
 * sent again for the same content.
 */
export async function editAtRandom(cluster: TestCluster, seed: number, edits: number): Promise<EditCounts> {
  const run = await Run.start(cluster, seed);
  try {
    const perKind = Math.ceil(edits / childExamples.length);
    for (const example of childExamples) await run.edit(example, perKind);
    return run.counts;
  } finally {
    await run.end();
  }
}

class Run {
  readonly counts: EditCounts = { unchanged: 0, applied: 0, probed: 0, refused: 0 };
  readonly #cluster: TestCluster;
  readonly #random: () => number;
  readonly #transport: Transport;
  readonly #client: Client;
  readonly #applier = new Applier({ fieldManager: applyManager });
  readonly #namespace: string;
  readonly #limited: string;
  readonly #owner: { readonly name: string; readonly uid: string };
  readonly #ofCluster: { readonly kind: Kind; readonly name: string }[] = [];
  /** The applier's PATCH requests, including dry runs. */
  readonly #sent: { count: number };
  #made = 0;

  private constructor(
    cluster: TestCluster,
    seed: number,
    transport: Transport,
    namespaces: readonly [string, string],
    owner: KubeObject,
    sent: { count: number },
  ) {
    this.#cluster = cluster;
    this.#random = randomNumbers(seed);
    this.#transport = transport;
    this.#client = new HttpClient(transport, applyManager);
    [this.#namespace, this.#limited] = namespaces;
    this.#owner = owner.metadata;
    this.#sent = sent;
  }

  static async start(cluster: TestCluster, seed: number): Promise<Run> {
    const sent = { count: 0 };
    const transport = new Transport(await kubeconfigConnection(cluster.kubeconfig), {
      userAgent: 'test',
      observe: () => {
        sent.count += 1;
      },
    });
    const namespaces = [await cluster.namespace(), await cluster.namespace()] as const;
    // A cluster-scoped owner can own objects of every scope.
    const kind = childExamples.find((example) => example.kind.kind === 'ClusterRole')?.kind as Kind;
    const owner = await cluster.client.create(kind, { metadata: { name: `owner-${namespaces[0]}` } });
    const run = new Run(cluster, seed, transport, namespaces, owner, sent);
    run.#ofCluster.push({ kind, name: owner.metadata.name });
    return run;
  }

  async end(): Promise<void> {
    for (const { kind, name } of this.#ofCluster) {
      await this.#cluster.client.delete(kind, { name }).catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
      });
    }
    await this.#transport.close();
  }

  async edit(example: ChildExample, edits: number): Promise<void> {
    const random = await RandomEdits.of(example.kind, this.#transport, this.#random);
    let done = 0;
    while (done < edits) {
      let child = await this.#create(example);
      let refusals = 0;
      const until = Math.min(edits, done + editsPerObject);
      while (done < until && refusals < maxRefusals) {
        const theirs = await this.#update(example.kind, random.edited(child.stored));
        if (theirs === undefined) {
          refusals += 1;
          this.counts.refused += 1;
          child = { ...child, stored: await this.#cluster.client.get(example.kind, keyOf(child.stored)) };
          continue;
        }
        const stored = await this.#check(example.kind, child.manifest, theirs);
        done += 1;
        if (stored === undefined) break;
        child = { ...child, stored };
      }
      // Refused edits count too, because some kinds allow few edits, and the loop would not end.
      if (refusals === maxRefusals) done += 1;
    }
  }

  /** @returns the current object; undefined if fields of others make every apply fail */
  async #check(kind: Kind, manifest: () => Manifest<KubeObject>, theirs: KubeObject): Promise<KubeObject | undefined> {
    const dryRun = await this.#applyDry(kind, manifest(), theirs);
    const store = new Store<KubeObject>();
    store.set(theirs);
    const before = this.#sent.count;
    const result = await this.#applier.apply(kind, manifest(), { client: this.#client, store }).catch(refusal);
    if (dryRun instanceof ApiError || result instanceof ApiError) {
      expect(dryRun).toBeInstanceOf(ApiError);
      // With such fields of others the server answers 500 even to an apply of the present content.
      if ((dryRun as ApiError).code !== 500) expect(result).toBeInstanceOf(ApiError);
      return undefined;
    }
    const isSent = this.#sent.count > before;
    if (result.type === 'unchanged') {
      expect(contentOf(dryRun)).toEqual(contentOf(theirs));
      this.counts[isSent ? 'probed' : 'unchanged'] += 1;
    } else {
      expect(result.type).toBe('applied');
      this.counts.applied += 1;
    }
    const { object } = result as { readonly object: KubeObject };
    expect(withoutNodePorts(contentOf(object))).toEqual(withoutNodePorts(contentOf(dryRun)));
    // A second apply must send nothing.
    store.set(object);
    const sent = this.#sent.count;
    expect((await this.#applier.apply(kind, manifest(), { client: this.#client, store })).type).toBe('unchanged');
    expect(this.#sent.count).toBe(sent);
    return object;
  }

  async #applyDry(
    kind: Kind,
    manifest: Manifest<KubeObject>,
    { metadata }: KubeObject,
  ): Promise<KubeObject | ApiError> {
    const client = Object.create(this.#client, {
      apply: {
        value: (_: Kind, configuration: Manifest<KubeObject>) =>
          this.#client.apply(kind, configuration, { force: true, dryRun: true }),
      },
    }) as Client;
    const store = new Store<KubeObject>();
    const { name, namespace, uid, ownerReferences } = metadata;
    // Makes the comparison fail, so that the apply is always sent.
    store.set({
      metadata: {
        ...metadata,
        annotations: {},
        labels: {},
        name,
        uid,
        ...(namespace && { namespace }),
        ...(ownerReferences && { ownerReferences }),
      },
    });
    const result = await new Applier({ fieldManager: applyManager })
      .apply(kind, manifest, { client, store })
      .catch(refusal);
    return result instanceof ApiError ? result : (result as { readonly object: KubeObject }).object;
  }

  async #create(example: ChildExample): Promise<{ manifest: () => Manifest<KubeObject>; stored: KubeObject }> {
    const { kind, content, limitsPods } = example;
    this.#made += 1;
    const name = `${this.#namespace}-${this.#made}`;
    if (kind.scope === 'Cluster') this.#ofCluster.push({ kind, name });
    const namespace = limitsPods ? this.#limited : this.#namespace;
    const controller = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', ...ownerOf(this.#owner) };
    const metadata = {
      name,
      ...(kind.scope === 'Namespaced' && { namespace }),
      labels: { app: 'shop' },
      ownerReferences: [controller],
    };
    const manifest = () => structuredClone({ ...content, metadata }) as Manifest<KubeObject>;
    const { type, ...rest } = await this.#applier.apply(kind, manifest(), { client: this.#client, store: new Store() });
    expect(type).toBe('created');
    return { manifest, stored: (rest as { object: KubeObject }).object };
  }

  /** Edits as another field manager. Returns undefined if the API server refuses the edit or it changes nothing. */
  async #update(kind: Kind, object: KubeObject): Promise<KubeObject | undefined> {
    const updated = await this.#cluster.client.update(kind, object).catch(refusal);
    return updated instanceof ApiError || updated.metadata.resourceVersion === object.metadata.resourceVersion
      ? undefined
      : updated;
  }
}

const ownerOf = ({ name, uid }: { readonly name: string; readonly uid: string }) => ({
  name,
  uid,
  controller: true,
  blockOwnerDeletion: true,
});

/** Returns a refusal instead of throwing it. */
function refusal(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  throw error;
}

/**
 * Returns the part that an apply may change: without the status, the server's metadata, and the Deployment controller's
 * annotation.
 */
export function contentOf(object: KubeObject): object {
  const { resourceVersion, managedFields, generation, ...metadata } = object.metadata as unknown as Record<
    string,
    unknown
  >;
  const { 'deployment.kubernetes.io/revision': _, ...annotations } = object.metadata.annotations ?? {};
  return { ...object, metadata: { ...metadata, annotations }, status: undefined };
}

/**
 * Removes a Service's node ports: if the server has to choose new ones, the apply gets other ports than the dry run.
 */
const withoutNodePorts = (content: object): unknown =>
  JSON.parse(JSON.stringify(content, (key, value) => (key === 'nodePort' ? undefined : value)));
