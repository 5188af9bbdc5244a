import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { isDeepStrictEqual } from 'node:util';
import { type Kind, keyString, type ObjectKey } from '@echoperator/runtime';
import * as builtInKinds from '@echoperator/runtime/kinds';
import { isObject, type JsonObject } from '../../../packages/runtime/src/apply/json.ts';
import { versionedResource } from '../../../packages/runtime/src/kind/kind.ts';
import { SimulatedApiServer } from '../../../packages/testing/src/simulation/simulated-api-server.ts';
import { SimulatedWatch } from '../../../packages/testing/src/simulation/simulated-watch.ts';
import { NotSimulatedError, type StoredObject } from '../../../packages/testing/src/simulation/strategy.ts';
import { kinds } from '../../../src/operator.ts';
import type { RecordedRequest } from '../../../testkit/recording-proxy.ts';

/** What a replay found. */
export interface ReplayReport {
  requests: number;
  equal: number;
  /** By reason. */
  readonly notSimulated: Map<string, number>;
  /** Responses that differ from those of the API server: each with the request and what differs. */
  readonly differing: string[];
  /** Events of watches that were equal. */
  events: number;
}

const emptyReport = (): ReplayReport => ({
  requests: 0,
  equal: 0,
  notSimulated: new Map(),
  differing: [],
  events: 0,
});

const builtIns = new Set<Kind>(Object.values(builtInKinds));
const kindsByResource = new Map([...kinds, ...builtIns].map((kind) => [versionedResource(kind), kind]));

const pathPattern =
  /^\/(?:api|apis\/(?<group>[^/]+))\/(?<version>[^/]+)(?:\/namespaces\/(?<namespace>[^/]+)(?=\/))?\/(?<plural>[^/]+)(?:\/(?<name>[^/]+))?/;

/** Subresources of namespaces, which look like resources in them. */
const ofNamespace = /(?<=^\/api\/v1\/namespaces\/[^/]+)\/(?:status|finalize)$/;

/** What a request is about. */
interface Target {
  readonly kind: Kind | undefined;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
}

function targetOf(path: string): Target | undefined {
  const groups = pathPattern.exec(path.split('?')[0]?.replace(ofNamespace, '') ?? '')?.groups;
  if (groups === undefined) return undefined;
  const { group = '', version, plural, namespace, name } = groups;
  return { kind: kindsByResource.get(`${group}/${version}/${plural}`), namespace, name };
}

const parsed = (text: string): JsonObject => {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
};

const isWrite = ({ method, path }: RecordedRequest): boolean => method !== 'GET' && !path.includes('dryRun=All');

/**
 * Sends the requests of a recording to a simulated API server, and compares the responses. The recording has the order
 * in which the API server processed the requests. After each write the simulated server takes over what the API server
 * stored, with its uid and version: so each request meets the same state, and a difference has no consequences.
 */
export class Replay {
  readonly #server = new SimulatedApiServer({ kinds });
  readonly #report: ReplayReport;
  readonly #records: readonly RecordedRequest[];
  /** The objects that requests have written. The API server writes others itself. */
  readonly #written = new Set<string>();
  /** The tokens of the simulated server by those of the API server. */
  readonly #tokens = new Map<string, string>();
  /** The objects whose state no response shows: they were scaled, or deleted with others. */
  readonly #unknown = new Set<string>();
  /** The objects whose changes no response shows all. */
  readonly #blurred = new Set<string>();
  /** The versions that the API server has shown. */
  readonly #versions = new Set<string>();
  /** The versions of removals, by uid, as the events of watches show them. */
  readonly #removals: ReadonlyMap<string, number>;

  constructor(records: readonly RecordedRequest[], report: ReplayReport) {
    this.#records = records;
    this.#report = report;
    this.#removals = removalsIn(records);
    for (const record of records) {
      if (!isWrite(record)) continue;
      const { metadata, kind } = parsed(record.response);
      const name = targetOf(record.path)?.name ?? (metadata as JsonObject | undefined)?.name;
      if (kind !== 'Status' || record.method === 'DELETE') this.#written.add(this.#id(record, String(name)));
    }
  }

  run(): void {
    for (const record of this.#records) if (!isWatch(record)) this.#compare(record);
    for (const record of this.#records) if (isWatch(record)) this.#compareWatch(record);
  }

  #id({ path }: RecordedRequest, name: string, namespace?: string): string {
    const target = targetOf(path);
    return `${target?.kind?.kind} ${target?.namespace ?? namespace ?? ''}/${name}`;
  }

  #compare(record: RecordedRequest): void {
    const { method, contentType, accept, body, code, path } = record;
    this.#report.requests += 1;
    if (code === 401 || (code === 403 && record.isLimited)) {
      this.#count('refused by authorization');
      return;
    }
    const target = targetOf(path);
    const since = this.#server.changeCount;
    let own: { readonly code: number; readonly body: object } | undefined;
    try {
      const headers = { 'content-type': contentType, accept };
      const sent = { method, path: this.#translated(record), headers, body: body === '' ? undefined : body };
      const response = this.#server.handle(sent);
      if (!(response instanceof SimulatedWatch)) own = response;
    } catch (error) {
      if (!(error instanceof NotSimulatedError) && !(error instanceof SyntaxError)) throw error;
      this.#count(target?.kind === undefined ? 'a kind that is not simulated, or no kind' : reasonOf(error, record));
    }
    const real = parsed(record.response);
    if (own !== undefined) this.#judge(record, own, real);
    if (isWrite(record)) {
      const hasVersion = this.#takeOver(since, record, target, own, real);
      if (!hasVersion) this.#server.renumber(since, this.#removals);
    }
    // The recording has the order of the API server: every later write has a greater version.
    this.#server.advanceTo(Number(metadataOf(real).resourceVersion) || 0);
    const continued = (real.metadata as JsonObject | undefined)?.continue;
    const next = metadataOf(own?.body ?? {}).continue;
    if (typeof continued === 'string' && typeof next === 'string') this.#tokens.set(continued, next);
  }

  #judge(record: RecordedRequest, own: { readonly code: number; readonly body: object }, real: JsonObject): void {
    const { kind, name } = targetOf(record.path) ?? {};
    const isOwn = name !== undefined && !this.#written.has(this.#id(record, name));
    if (isOwn && record.code < 300 && record.method === 'GET') {
      this.#count('an object that the API server makes itself');
      return;
    }
    if (name !== undefined && record.code < 300 && this.#unknown.has(this.#id(record, name))) {
      if (record.method === 'GET' && real.kind === kind?.kind)
        this.#takeOver(this.#server.changeCount, record, targetOf(record.path), own, real);
      this.#count('an object whose state no response has shown');
      return;
    }
    const created = record.method === 'POST' && record.code === 201;
    let text = JSON.stringify(own.body);
    if (created) {
      const [mine, theirs] = [metadataOf(own.body), metadataOf(real)];
      if (mine.uid) text = text.replaceAll(String(mine.uid), String(theirs.uid));
      if (mine.generateName) text = text.replaceAll(String(mine.name), String(theirs.name));
    }
    if (record.method === 'PATCH' && record.code === 201)
      text = text.replaceAll(String(metadataOf(own.body).uid), String(metadataOf(real).uid));
    const [expected, response] = [
      { code: record.code, body: this.#masked(record, real) },
      { code: own.code, body: this.#masked(record, JSON.parse(text)) },
    ];
    // Of what built-in kinds refuse, only the code and the reason are simulated.
    if (kind !== undefined && builtIns.has(kind) && record.code === 422 && own.code === 422) {
      this.#report.equal += 1;
      return;
    }
    const differing = differences(expected, response, '');
    const why = purposeOf(record, real, differing);
    if (differing.length === 0) this.#report.equal += 1;
    else if (why !== undefined) this.#count(why);
    else this.#report.differing.push(`${record.method} ${record.path}\n${differing.slice(0, 8).join('\n')}`);
  }

  /** Returns whether the changes have the API server's version. No response shows the version of a removal. */
  #takeOver(
    since: number,
    record: RecordedRequest,
    target: Target | undefined,
    own: { readonly code: number } | undefined,
    real: JsonObject,
  ): boolean {
    const { kind, namespace } = target ?? {};
    if (kind === undefined) return false;
    if (record.code >= 300) {
      this.#server.correct(since, kind, { name: '' }, undefined);
      return false;
    }
    if (record.method === 'DELETE' && target?.name === undefined) {
      for (const { metadata } of this.#server.objects(kind))
        if (metadata.namespace === namespace) this.#lose(this.#id(record, metadata.name));
      return false;
    }
    const metadata = metadataOf(real) as unknown as StoredObject['metadata'];
    const name = target?.name ?? metadata.name;
    const key: ObjectKey = namespace === undefined ? { name } : { name, namespace };
    const current = this.#server.objects(kind).find((each) => isSame(each, key));
    const isPartial = real.kind === 'PartialObjectMetadata';
    const object = (isPartial ? { ...current, metadata } : real) as StoredObject;
    // The response of another subresource is no such object.
    if (real.kind !== kind.kind && real.kind !== 'Status' && !isPartial) {
      this.#lose(this.#id(record, name));
      return false;
    }
    const isDeletion = record.method === 'DELETE' && metadata.deletionTimestamp === undefined;
    const isRemoval = real.kind === 'Status' || isDeletion || isReleased(real);
    const id = this.#id(record, name);
    this.#unknown.delete(id);
    if (isRemoval && (own === undefined || own.code >= 300)) this.#blurred.add(id);
    // The simulated server has removed the object too, perhaps in several steps.
    if (isRemoval && own !== undefined && own.code < 300 && current === undefined) return false;
    if (metadata.resourceVersion !== undefined) this.#versions.add(metadata.resourceVersion);
    this.#server.correct(since, kind, key, isRemoval ? undefined : object);
    return !isRemoval;
  }

  /**
   * The path with the simulated server's own token of the next page, with the field manager that the API server takes
   * from the name of the program, and without the time after which the API server gives up.
   */
  #translated({ path, method, userAgent }: RecordedRequest): string {
    const own = path
      .replace(/(?<=[?&]continue=)[^&]*/, (token) => {
        const next = this.#tokens.get(decodeURIComponent(token));
        return next === undefined ? token : encodeURIComponent(next);
      })
      .replace(/(?<=[?&])timeout=[^&]*&?/, '')
      .replace(/[?&]$/, '');
    if (method === 'GET' || method === 'DELETE' || path.includes('fieldManager=')) return own;
    return `${own}${own.includes('?') ? '&' : '?'}fieldManager=${encodeURIComponent(userAgent.split('/')[0] ?? '')}`;
  }

  /** Without what differs between any two servers. */
  #masked(record: RecordedRequest, body: JsonObject): unknown {
    if (body.kind === 'Status') return maskedStatus(body);
    if (!String(body.kind).endsWith('List')) return this.#maskedObject(body, record.method !== 'GET');
    const items = ((body.items ?? []) as JsonObject[]).filter((item) => {
      const { name, namespace } = metadataOf(item);
      return this.#written.has(this.#id(record, String(name), namespace as string | undefined));
    });
    // The responses to deletions of collections have the objects as they were.
    return { ...body, metadata: {}, items: items.map((item) => this.#maskedObject(item, false)) };
  }

  #maskedObject(object: JsonObject, isWritten: boolean): unknown {
    const { managedFields, resourceVersion, ...metadata } = metadataOf(object);
    const isKnown = !isWritten && this.#versions.has(String(resourceVersion));
    const entries = (Array.isArray(managedFields) ? managedFields : []).map(({ time: _, ...entry }) => entry);
    const text = JSON.stringify({
      ...object,
      metadata: {
        ...metadata,
        ...(isKnown && { resourceVersion }),
        managedFields: entries.toSorted((one, other) => (keyOfEntry(one) < keyOfEntry(other) ? -1 : 1)),
      },
    });
    return JSON.parse(text, (name, value) => {
      if (name === 'creationTimestamp' || name === 'deletionTimestamp') return '<time>';
      if (name === 'nodePort') return '<port>';
      if (name === 'clusterIP' && value !== 'None') return '<address>';
      return name === 'clusterIPs' && value[0] !== 'None' ? ['<address>'] : value;
    });
  }

  /** Compares the events after the first list. A list that is streamed ends with a bookmark, which has its version. */
  #compareWatch(record: RecordedRequest): void {
    const target = targetOf(record.path);
    this.#report.requests += 1;
    if (target?.kind === undefined) {
      this.#count('a kind that is not simulated, or no kind');
      return;
    }
    if (record.code === 401 || record.code === 403) {
      this.#count('refused by authorization');
      return;
    }
    if (record.code !== 200) {
      this.#count(`a watch with code ${record.code}`);
      return;
    }
    const lines = record.response.split('\n');
    // The last line is empty, or the connection has broken in it.
    const all = lines
      .slice(0, -1)
      .map(parsed)
      .filter(({ object }) => isObject(object)) as unknown as { readonly type: string; readonly object: JsonObject }[];
    const [path = '', query = ''] = this.#translated(record).split('?');
    const parameters = new URLSearchParams(query);
    if (record.path.includes('sendInitialEvents=true')) {
      const end = all.findIndex(({ type, object }) => type === 'BOOKMARK' && hasListEnd(object));
      if (end === -1) {
        this.#count('a watch that has ended in its first list');
        return;
      }
      parameters.delete('sendInitialEvents');
      parameters.delete('resourceVersionMatch');
      parameters.set('resourceVersion', String(metadataOf(all[end]?.object ?? {}).resourceVersion));
      all.splice(0, end + 1);
    }
    const events = all.filter(({ type, object }) => type !== 'BOOKMARK' && this.#isFollowed(record, object));
    if (events.some(({ type }) => type === 'ERROR')) {
      this.#count('a watch with an error');
      return;
    }
    try {
      const headers = { accept: record.accept };
      const watch = this.#server.handle({ method: 'GET', path: `${path}?${parameters}`, headers, body: undefined });
      if (!(watch instanceof SimulatedWatch)) throw new Error(`no watch: ${JSON.stringify(watch)}`);
      for (const event of events) {
        const own = this.#nextEvent(watch, record);
        const [expected, found] = [event, own].map((each) =>
          each === undefined
            ? undefined
            : { type: each.type, object: this.#maskedObject(each.object as JsonObject, each.type === 'DELETED') },
        );
        const differing = differences(expected, found, '');
        if (differing.length > 0) {
          this.#report.differing.push(`an event of ${record.path}\n${differing.slice(0, 8).join('\n')}`);
          return;
        }
        this.#report.events += 1;
      }
      this.#report.equal += 1;
    } catch (error) {
      if (!(error instanceof NotSimulatedError)) throw error;
      this.#count(reasonOf(error, record));
    }
  }

  #nextEvent(watch: SimulatedWatch, record: RecordedRequest) {
    for (;;) {
      const event = watch.next();
      if (event === undefined || this.#isFollowed(record, event.object as JsonObject)) return event;
    }
  }

  #isFollowed(record: RecordedRequest, object: JsonObject): boolean {
    const { name, namespace } = metadataOf(object);
    const id = this.#id(record, String(name), namespace as string | undefined);
    return name === undefined || (this.#written.has(id) && !this.#blurred.has(id));
  }

  #lose(id: string): void {
    this.#unknown.add(id);
    this.#blurred.add(id);
  }

  #count(reason: string): void {
    const { notSimulated } = this.#report;
    notSimulated.set(reason, (notSimulated.get(reason) ?? 0) + 1);
  }
}

const isWatch = ({ path }: RecordedRequest): boolean => /[?&]watch=(?:true|1)/.test(path);

const metadataOf = (object: object): JsonObject => Object((object as JsonObject).metadata);

/** An object that leaves a selection is DELETED too, so it ignores watches with a selector. */
function removalsIn(records: readonly RecordedRequest[]): ReadonlyMap<string, number> {
  const removals = new Map<string, number>();
  for (const record of records) {
    if (!isWatch(record) || /[?&](?:label|field)Selector=/.test(record.path)) continue;
    for (const line of record.response.split('\n')) {
      const { type, object } = parsed(line);
      if (type !== 'DELETED' || !isObject(object)) continue;
      const { uid, resourceVersion } = metadataOf(object);
      removals.set(String(uid), Number(resourceVersion));
    }
  }
  return removals;
}

const hasListEnd = (object: JsonObject): boolean =>
  Object.hasOwn(Object(metadataOf(object).annotations), 'k8s.io/initial-events-end');

const keyOfEntry = ({ manager, operation, subresource }: JsonObject): string =>
  `${manager} ${operation} ${subresource}`;

const isSame = ({ metadata }: StoredObject, key: ObjectKey): boolean => keyString(metadata) === keyString(key);

/** The object is gone, and this was its last state. */
function isReleased(object: JsonObject): boolean {
  const { spec } = object;
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = metadataOf(object);
  const ofSpec = Object(spec).finalizers ?? [];
  return (
    deletionTimestamp !== undefined &&
    deletionGracePeriodSeconds === 0 &&
    (finalizers as readonly string[]).length === 0 &&
    ofSpec.length === 0
  );
}

function reasonOf(error: Error, { contentType }: RecordedRequest): string {
  if (contentType === 'application/strategic-merge-patch+json') return 'a strategic merge patch';
  if (error instanceof SyntaxError) return 'a body that is not JSON';
  const text = error.message.replace(/^\S+ \S+: /, '').replace('the simulated API server does not know ', '');
  return text.replaceAll(/[0-9a-f]{8}-[-0-9a-f]{27}|\d+/g, 'N').slice(0, 120);
}

/** The managers of conflicts are in the order of their times, and causes may be there twice. */
function maskedStatus({ metadata: _, ...status }: JsonObject): unknown {
  const details = Object(status.details) as JsonObject;
  const causes = Array.isArray(details.causes) ? details.causes.map((cause) => JSON.stringify(sorted(cause))) : [];
  const message = String(status.message ?? '')
    .split(/\n?(?=conflicts with ")/)
    .sort();
  return { ...status, message, details: { ...details, causes: [...new Set(causes)].sort() } };
}

/** Why the responses differ, if that is one of the differences in docs/testing.md. */
function purposeOf(
  { path, method }: RecordedRequest,
  real: JsonObject,
  differing: readonly string[],
): string | undefined {
  const every = (...prefixes: readonly string[]): boolean =>
    differing.every((each) => prefixes.some((prefix) => each.startsWith(prefix)));
  const { kind } = targetOf(path) ?? {};
  if (/denied request|exceeded quota|failed calling webhook/.test(String(real.message)))
    return 'refused by admission or a quota';
  // Policies of the tests set the node of pods, and a version in the data of ConfigMaps.
  if (kind === builtInKinds.ConfigMap && method === 'PATCH' && every('.body.data.')) return 'changed by admission';
  if (kind === builtInKinds.Pod && every('.body.spec.nodeName', '.body.spec.terminationGracePeriodSeconds'))
    return 'changed by admission';
  if (kind === undefined || !builtIns.has(kind)) return undefined;
  const isOfStatus = (each: string): boolean =>
    /^\.body\.(?:status|metadata\.managedFields\[\d\]\.\S*f:status)/.test(each);
  // Controllers write events of the core group, which the others show too.
  if (kind === builtInKinds.Event && (method === 'GET' || method === 'DELETE')) return 'events of the core group';
  if (differing.every(isOfStatus)) return 'the status of a built-in kind';
  if (real.reason === 'Invalid' || real.reason === 'BadRequest')
    return 'a spec of a built-in kind that is not validated';
  return undefined;
}

const sorted = (object: object): object => Object.fromEntries(Object.entries(object).sort());

/** Lists what differs, each as a path with both values. */
function differences(real: unknown, own: unknown, path: string): readonly string[] {
  if (isDeepStrictEqual(real, own)) return [];
  if (isObject(real) && isObject(own)) {
    const names = new Set([...Object.keys(real), ...Object.keys(own)]);
    return [...names].flatMap((name) => differences(real[name], own[name], `${path}.${name}`));
  }
  if (Array.isArray(real) && Array.isArray(own) && real.length === own.length)
    return real.flatMap((item, index) => differences(item, own[index], `${path}[${index}]`));
  // The version of an object that was written in a way that does not show its version.
  if (path.endsWith('.metadata.resourceVersion') && (own === undefined || real === undefined)) return [];
  const [one, other] = [real, own].map((value) => (JSON.stringify(value) ?? 'absent').slice(0, 500));
  return [`${path}: API server ${one}, simulation ${other}`];
}

/** Replays all recordings of a folder, each on a server of its own. */
export async function replayFolder(folder: string): Promise<ReplayReport> {
  const report = emptyReport();
  for (const file of await readdir(folder)) {
    const records: RecordedRequest[] = [];
    // A recording is larger than a string may be.
    for await (const line of createInterface({ input: createReadStream(join(folder, file)) }))
      records.push(JSON.parse(line));
    new Replay(records, report).run();
  }
  return report;
}
