/**
 * Plans upgrades to later versions of the operator, and then makes each upgrade.
 *
 *     node test/plan-versions/run.ts FOLDER NAMES    NAMES: the names of versions as a JSON array; default: all
 *
 * For each version the operator of this source first reconciles objects of every kind in a namespace of its own, until
 * a plan with the same source has no write. Then the program plans with the version, and runs the version. It fails if
 * - the plan of the same source has a write, or a plan changes an object;
 * - the first reconcile of an object sends a write that was not planned, or a planned write is not sent;
 * - the first change of an object has other fields than the planned ones.
 *
 * The calls of external systems are refused in both runs. So the writes before the first call are compared.
 */
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect, isDeepStrictEqual } from 'node:util';
import type { Kind, KubeObject, Manifest, Operator } from '@echoperator/runtime';
import { type Client, createClient, type Gate, GateClosedError } from '@echoperator/runtime/client';
import * as builtInKinds from '@echoperator/runtime/kinds';
import { type Plan, planOperator } from '@echoperator/runtime/plan';
import { connectOperator, type OperatorObserver } from '@echoperator/runtime/process';
import { ApiServer, eventually } from '@echoperator/testing';
import { pino } from 'pino';
import { fieldChanges } from '../../packages/runtime/src/plan/field-changes.ts';
import { forEachConcurrently } from '../../packages/testing/src/for-each-concurrently.ts';
import { readConfig } from '../../src/config.ts';
import { addControllers, controllers, kinds } from '../../src/operator.ts';
import { apiServerPrograms } from '../../testkit/api-server-programs.ts';
import { kindPlans } from '../plans/index.ts';
import { textWith } from '../seeded-bugs/seeded-bug.ts';
import { type Version, versions } from './versions.ts';

const repository = join(import.meta.dirname, '../..');
const log = pino({ level: 'silent' });

/** How long a phase of a version may take. */
const timeoutMs = 120_000;

type AddControllers = typeof addControllers;

/** A write, comparable between a plan and an upgrade. */
const textOf = (
  verb: string,
  kind: string,
  { namespace = '', name }: { namespace?: string; name: string },
  subresource = '',
) =>
  // The operator chooses the names of new pods at random.
  [verb, kind, `${namespace}/${name.replace(/-pod-[0-9a-f]{5}$/, '-pod-*')}`, subresource].join(' ').trim();

/** By controller and key, the sorted writes. */
type Writes = ReadonlyMap<string, readonly string[]>;

/** Records what the first reconcile of each key writes. */
class FirstWrites implements OperatorObserver {
  readonly writes = new Map<string, string[]>();
  readonly ended = new Set<string>();

  controller({ name }: { readonly name: string }): ReturnType<OperatorObserver['controller']> {
    return {
      filtered: () => {},
      started: (key) => {
        const id = `${name} ${key}`;
        const isFirst = !this.writes.has(id);
        const writes: string[] = [];
        if (isFirst) this.writes.set(id, writes);
        return {
          requested: ({ verb, kind, key: object, subresource, isDryRun }) => {
            if (object !== undefined && isDryRun !== true && verb !== 'get' && verb !== 'list')
              writes.push(textOf(verb, kind.kind, object, subresource));
            return { responded: () => {} };
          },
          unchanged: () => {},
          differs: () => {},
          reported: () => {},
          ended: () => void this.ended.add(id),
        };
      },
    };
  }

  controllerRemoved(): void {}
}

const closedGate: Gate = {
  pass: () => {
    throw new GateClosedError('external systems are closed');
  },
  signal: new AbortController().signal,
};

/** The settings of the operator in one namespace. */
const configOf = (namespace: string) =>
  readConfig({
    CONTROLLERS: Object.keys(controllers).join(','),
    WATCH_NAMESPACES: namespace,
    PSQL_HOST: '127.0.0.1',
    PSQL_USER: 'nobody',
    PSQL_PASSWORD: 'secret',
    PSQL_DBNAME: 'none',
    PETSTORE_ADDRESS: '127.0.0.1:1',
    RESYNC_SECONDS: '3600',
  });

/** Runs an operator while `meanwhile` runs. */
async function runOperator(
  server: ApiServer,
  add: AddControllers,
  namespace: string,
  meanwhile: (operator: Operator) => Promise<void>,
  observer?: OperatorObserver,
): Promise<void> {
  const operator = await connectOperator({ name: 'echoperator', log, connection: server.connection, observer });
  add({ ...operator, elector: { fence: closedGate } }, configOf(namespace));
  const stop = new AbortController();
  const running = operator.run(stop.signal);
  try {
    await Promise.race([meanwhile(operator), running]);
  } finally {
    stop.abort();
    await running;
  }
}

const planOf = (server: ApiServer, add: AddControllers, namespace: string): Promise<Plan> =>
  planOperator({ name: 'echoperator', log, connection: server.connection, requestsPerSecond: 2000 }, (operator) =>
    add(operator, configOf(namespace)),
  );

const plannedWrites = ({ objects }: Plan): Writes =>
  new Map(
    objects
      .filter(({ writes }) => writes.length > 0)
      .map(({ controller, namespace, name, writes }) => [
        `${controller} ${namespace}/${name}`,
        writes.map((write) => textOf(write.verb, write.kind, write, write.subresource)).sort(),
      ]),
  );

/** All kinds of which the operator writes objects. */
const writtenKinds = new Set<Kind>([...kinds, ...Object.values(controllers).flatMap(({ children }) => children)]);
writtenKinds.add(builtInKinds.PersistentVolumeClaim);

async function snapshot(client: Client, namespace: string): Promise<ReadonlyMap<string, KubeObject>> {
  const objects = new Map<string, KubeObject>();
  for (const kind of writtenKinds)
    for (const object of (await client.list(kind, { namespace })).items)
      objects.set(`${kind.kind} ${object.metadata.name}`, object);
  return objects;
}

/** Objects of every kind, in several states. */
async function createObjects(client: Client, namespace: string): Promise<void> {
  const create = (kindName: string, name: string, spec: object) => {
    const kind = kinds.find((each) => each.kind === kindName);
    if (kind === undefined) throw new TypeError(`there is no kind ${kindName}`);
    return client.create(kind, { metadata: { namespace, name }, spec } as unknown as Manifest<KubeObject>);
  };
  for (const [name, { example }] of Object.entries(kindPlans)) {
    const kind = controllers[name as keyof typeof controllers].kind.kind;
    await create(kind, `${kind.toLowerCase()}-one`, example);
    await create(kind, `${kind.toLowerCase()}-two`, example).catch(() => undefined);
  }
  await create('Echo', 'done', { message: 'done' });
  await create('Echo', 'long', { message: 'Hi $(HOME)', ttlSecondsAfterFinished: 60 });
  await create('ScheduledEcho', 'suspended', {
    message: 'x',
    schedule: '0 0 1 1 *',
    suspend: true,
    timeZone: 'Etc/UTC',
  });
  await create('ScheduledEcho', 'refused', { message: 'x', schedule: 'never' });
  await create('PodSet', 'plain', { replicas: 3 });
  const template = { spec: { containers: [{ name: 'a', image: 'example.com/a:1' }] } };
  await create('PodSet', 'templated', { replicas: 2, template });
  await create('BookStore', 'small', {
    bookApp: { repository: 'example.com/app', serviceName: 'small-app' },
    bookDB: { repository: 'example.com/db', dbSize: '1Gi', serviceName: 'small-db' },
  });
}

/** What other controllers would report. */
async function playControllers(client: Client, namespace: string): Promise<void> {
  const { Job, Pod } = builtInKinds;
  const key = { namespace, name: 'done' };
  await eventually('Echo done has a Job', () => client.get(Job, key), timeoutMs);
  const at = new Date().toISOString();
  const complete = { type: 'Complete', status: 'True', lastTransitionTime: at };
  const met = { ...complete, type: 'SuccessCriteriaMet' };
  await client.patch(
    Job,
    key,
    {
      type: 'merge',
      body: { status: { succeeded: 1, startTime: at, completionTime: at, conditions: [met, complete] } },
    },
    { subresource: 'status' },
  );
  await eventually(
    'PodSet plain has pods',
    async () => {
      const { items } = await client.list(Pod, { namespace, labelSelector: 'app=plain' });
      return items.length === 3;
    },
    timeoutMs,
  );
}

/** A problem of a version, for people. */
type Problem = string;

/** The source with a version's change. */
async function loadVersion(folder: string, version: Version): Promise<AddControllers> {
  const copy = join(folder, `version-${versions.indexOf(version)}`);
  await mkdir(copy, { recursive: true });
  await cp(join(repository, 'src'), join(copy, 'src'), { recursive: true });
  await cp(join(repository, 'package.json'), join(copy, 'package.json'));
  await symlink(join(repository, 'node_modules'), join(copy, 'node_modules'));
  await writeFile(join(copy, version.file), await textWith(version));
  const module: { readonly addControllers: AddControllers } = await import(join(copy, 'src/operator.ts'));
  return module.addControllers;
}

async function tryVersion(server: ApiServer, folder: string, version: Version): Promise<readonly Problem[]> {
  const namespace = `version-${versions.indexOf(version)}`;
  await using client = closing(createClient(server.connection, { fieldManager: 'test' }));
  await client.create(builtInKinds.Namespace, { metadata: { name: namespace } });
  await createObjects(client, namespace);
  await runOperator(server, addControllers, namespace, async () => {
    await playControllers(client, namespace);
    await eventually(
      'a plan of the same version has no write',
      async () => {
        const { objects } = await planOf(server, addControllers, namespace);
        const writes = objects.flatMap((object) => object.writes).filter(({ action }) => action !== 'refused');
        if (writes.length > 0) throw new Error(JSON.stringify(writes));
        return true;
      },
      timeoutMs,
    );
  });
  const add = await loadVersion(folder, version);
  const before = await snapshot(client, namespace);
  const plan = await planOf(server, add, namespace);
  const problems: Problem[] = [];
  const after = await snapshot(client, namespace);
  if (!isDeepStrictEqual(before, after)) problems.push('the plan has changed objects');
  const first = new FirstWrites();
  await runOperator(
    server,
    add,
    namespace,
    async () => {
      await eventually('each object is reconciled', async () => first.ended.size >= plan.reconciled, timeoutMs);
    },
    first,
  );
  problems.push(...compare(plannedWrites(plan), first.writes));
  const incomplete = plan.objects.filter((object) => object.incomplete !== undefined);
  for (const object of incomplete) problems.push(`${object.kind} ${object.name}: ${object.incomplete}`);
  problems.push(...(await compareFields(plan, before, client, namespace)));
  const changes = plan.objects.flatMap(({ writes }) => writes).filter(({ action }) => action !== 'none');
  if ((changes.filter(({ action }) => action !== 'refused').length === 0) !== (version.isSilent === true))
    problems.push(`expected ${version.isSilent ? 'no change' : 'a change'}: the plan has ${changes.length}`);
  const counts = Object.entries(Object.groupBy(changes, ({ action }) => action)).map(
    ([action, all]) => `${all?.length} ${action}`,
  );
  console.log(`${problems.length === 0 ? 'as planned' : 'NOT AS PLANNED'}: ${version.name}: ${counts.join(', ')}`);
  for (const problem of problems) console.log(`    ${problem}`);
  return problems;
}

function closing<C extends Client & { close(): Promise<void> }>(client: C): C & AsyncDisposable {
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

function compare(planned: Writes, sent: Writes): readonly Problem[] {
  const problems: Problem[] = [];
  for (const key of new Set([...planned.keys(), ...sent.keys()])) {
    const [one, other] = [planned.get(key) ?? [], [...(sent.get(key) ?? [])].sort()];
    if (isDeepStrictEqual(one, other)) continue;
    problems.push(`${key}: planned ${one.join('; ') || 'nothing'}, sent ${other.join('; ') || 'nothing'}`);
  }
  return problems;
}

/** Compares the planned fields of each object that is changed once with the first change that a watch delivers. */
async function compareFields(
  plan: Plan,
  before: ReadonlyMap<string, KubeObject>,
  client: Client,
  namespace: string,
): Promise<readonly Problem[]> {
  const all = plan.objects.flatMap(({ writes }) => writes);
  const effective = all.filter(({ action }) => action !== 'none' && action !== 'refused');
  const byObject = Map.groupBy(effective, ({ kind, name }) => `${kind} ${name}`);
  const events = await eventsSince(before, client, namespace);
  const problems: Problem[] = [];
  for (const [key, writes] of byObject) {
    const old = before.get(key);
    const [write] = writes;
    if (write === undefined || writes.length > 1 || old === undefined || write.fields.length === 0) continue;
    const current = events.get(key);
    const changed = current === undefined ? [] : comparable(fieldChanges(old, current, { hasValues: true }));
    if (!isDeepStrictEqual(changed, comparable(write.fields)))
      problems.push(`${key}: planned ${JSON.stringify(write.fields)}, changed ${JSON.stringify(changed)}`);
  }
  return problems;
}

/** Times differ, and so do names of pods and ports that are chosen at random. */
const comparable = (fields: Plan['objects'][number]['writes'][number]['fields']) =>
  fields
    .filter(({ path }) => !/Time\]?$|nodePort$|podNames\[/.test(path))
    .sort((one, other) => (one.path < other.path ? -1 : 1));

/** The first event of each object since the snapshot. */
async function eventsSince(
  before: ReadonlyMap<string, KubeObject>,
  client: Client,
  namespace: string,
): Promise<ReadonlyMap<string, KubeObject>> {
  const latest = Math.max(...[...before.values()].map(({ metadata }) => Number(metadata.resourceVersion)));
  const events = new Map<string, KubeObject>();
  for (const kind of writtenKinds) {
    const options = {
      namespace,
      resourceVersion: String(latest),
      timeoutSeconds: 1,
      signal: new AbortController().signal,
    };
    for await (const { type, object } of client.watch(kind, options)) {
      const key = `${kind.kind} ${object.metadata.name}`;
      if (type !== 'BOOKMARK' && !events.has(key)) events.set(key, object as KubeObject);
    }
  }
  return events;
}

const [folder = '', names] = process.argv.slice(2);
const wanted: readonly string[] | undefined = names === undefined ? undefined : JSON.parse(names);
const chosen = versions.filter(({ name }) => wanted?.some((each) => name.startsWith(each)) !== false);
await using server = await ApiServer.start({
  assets: await apiServerPrograms(folder),
  folder: join(folder, 'server'),
  crds: [join(repository, 'crds')],
});
let failures = 0;
await forEachConcurrently(
  chosen,
  async (version) => {
    const problems = await tryVersion(server, folder, version).catch((error: unknown) => {
      console.log(`NOT TRIED: ${version.name}: ${inspect(error)}`);
      return ['not tried'];
    });
    if (problems.length > 0) failures += 1;
  },
  2,
);
console.log(`${chosen.length - failures} of ${chosen.length} versions did exactly what their plan says`);
process.exitCode = failures === 0 ? 0 : 1;
