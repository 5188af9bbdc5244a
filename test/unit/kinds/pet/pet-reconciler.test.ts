import { randomUUID } from 'node:crypto';
import { Code, ConnectError } from '@connectrpc/connect';
import { type Client, findCondition, type Logger, type ReadonlyStore } from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import type { EventNotice } from '@echoperator/runtime/controller';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { type BareReconciler, reconcilerOf } from '../../../../packages/runtime/src/controller/define-controller.ts';
import { Circuit } from '../../../../src/external/circuit.ts';
import { petController } from '../../../../src/kinds/pet/controller.ts';
import { failureOf, outageOf, RefusedError } from '../../../../src/kinds/pet/errors.ts';
import { Inventory } from '../../../../src/kinds/pet/inventory.ts';
import { type Pet, petFinalizer } from '../../../../src/kinds/pet/kind.ts';
import { PetWriter } from '../../../../src/kinds/pet/pet-writer.ts';
import type { StorePet } from '../../../../src/kinds/pet/store-pet.ts';
import { bareEnvironment, petOptions } from './pets.ts';

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };
const key = { namespace: 'default', name: 'thor' };

let pet: Pet;
let statusWrites: object[];
/** As they were written last. */
let finalizers: unknown;
let reconciler: BareReconciler;
let inventory: Inventory;
let told: string[];
/** What the API server answers to a write of the status. */
let onStatusWrite: () => void;
/** Called after a write of the status: an error loses the answer. */
let afterStatusWrite: () => void;
/** Called for a pet that is searched for, or added with a request id. */
let onSend: (sent: StorePet, requestId?: string) => void;
/** What the store answers to AddPets. */
let onAdd: (timeoutMs?: number) => Promise<string>;
/** What the store answers to UpdatePets: whether it has the pet. */
let onUpdate: () => Promise<boolean>;
let circuit: Circuit;
let elapsedMs: number;
let remembersRequests: boolean;
let now: Date;

const client = {
  mergeStatus: async (_: unknown, __: unknown, patch: { readonly [name: string]: unknown }) => {
    onStatusWrite();
    statusWrites.push(patch);
    const intent = patch.intent && { ...pet.status?.intent, ...patch.intent };
    const merged = { ...pet.status, ...patch, ...(intent !== undefined && { intent }) };
    const status = Object.entries(merged).filter(([, value]) => value !== null);
    pet = { ...pet, status: Object.fromEntries(status) };
    afterStatusWrite();
    return pet;
  },
  patch: async (_: unknown, __: unknown, { body }: { readonly body: readonly { readonly value: unknown }[] }) => {
    finalizers = body.at(-1)?.value;
    return pet;
  },
} as unknown as Client;

const reconcile = (): Promise<unknown> =>
  reconciler
    .reconcile(key, { client, signal: new AbortController().signal, log: silent })
    .catch((error: unknown) => error);

const readyOf = () => findCondition(pet.status?.conditions, 'Ready');

beforeEach(() => {
  statusWrites = [];
  told = [];
  onStatusWrite = () => {};
  afterStatusWrite = () => {};
  onSend = () => {};
  onUpdate = async () => true;
  elapsedMs = 0;
  remembersRequests = true;
  now = new Date('2026-01-01T00:00:00Z');
  circuit = new Circuit({
    system: 'the pet store',
    reasonOf: outageOf,
    isResponse: (error) => failureOf(error) !== undefined,
    clock: { elapsedMs: () => elapsedMs, now: () => now },
  });
  const pets = { get: () => pet, list: () => [pet] } as unknown as ReadonlyStore<Pet>;
  inventory = new Inventory(pets);
  const writer = new PetWriter({
    circuit,
    inventory,
    namespaces: undefined,
    now: () => now,
    store: {
      timeoutMs: 1000,
      get remembersRequests() {
        return remembersRequests;
      },
      add: async (added, requestId, _, addTimeoutMs) => {
        onSend(added, requestId);
        return onAdd(addTimeoutMs);
      },
      update: () => onUpdate(),
      delete: async () => {},
      find: async (searched) => {
        onSend(searched, undefined);
        return [];
      },
    },
  });
  reconciler = reconcilerOf(petController(petOptions), {
    ...bareEnvironment,
    store: <C>() => pets as unknown as ReadonlyStore<C & Pet>,
    events: { record: (_: unknown, __: unknown, { reason }: EventNotice) => void told.push(reason) },
    state: () => ({ writer }),
    now: () => now,
  });
  pet = {
    metadata: {
      ...key,
      uid: 'u',
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      generation: 1,
      finalizers: [petFinalizer],
    },
    spec: { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' },
  };
});

describe('a pet that the store refuses', () => {
  const refused = async (): Promise<never> => {
    throw new RefusedError('no dogs');
  };

  test('is retried without a status write or an Event if the store remembers request ids', async () => {
    onAdd = refused;
    await reconcile();
    expect(readyOf()?.reason).toBe('PetRefused');
    expect(told).toEqual(['PetRefused']);
    statusWrites.length = 0;
    let attempts = 0;
    onAdd = () => {
      attempts += 1;
      return refused();
    };
    await reconcile();
    expect([attempts, statusWrites, told]).toEqual([1, [], ['PetRefused']]);
    onAdd = async () => 'pet-1';
    await reconcile();
    expect(readyOf()?.reason).toBe('Stored');
    expect(pet.status).not.toHaveProperty('intent');
  });

  test('stays PetRefused during retries with another store, and leaves no intent', async () => {
    remembersRequests = false;
    onAdd = refused;
    await reconcile();
    statusWrites.length = 0;
    await reconcile();
    expect(told).toEqual(['PetRefused']);
    expect(readyOf()?.reason).toBe('PetRefused');
    expect(statusWrites.filter((patch) => 'conditions' in patch)).toEqual([]);
    expect(pet.status).not.toHaveProperty('intent');
  });

  test('is replaced by the pet of a new spec', async () => {
    onAdd = refused;
    await reconcile();
    let attempts = 0;
    onAdd = async () => {
      attempts += 1;
      if (attempts === 1) return refused();
      return 'pet-1';
    };
    pet = { ...pet, metadata: { ...pet.metadata, generation: 2 }, spec: { ...pet.spec, type: 'cat' } };
    await reconcile();
    expect(attempts).toBe(2);
    expect(pet.status?.id).toBe('pet-1');
    expect(readyOf()?.reason).toBe('Stored');
  });
});

test('a conflict of the API server does not close the circuit of the store', async () => {
  onAdd = async () => {
    throw new ConnectError('the disk is full', Code.ResourceExhausted);
  };
  await reconcile();
  expect(circuit.isOpen).toBe(true);
  expect(readyOf()?.reason).toBe('PetStoreFailed');
  elapsedMs = 1_000_000;
  onStatusWrite = () => {
    throw new ApiError('PATCH pets/thor/status', 409, { reason: 'Conflict', message: 'the object has been modified' });
  };
  pet = { ...pet, status: {} };
  expect(await reconcile()).toBeInstanceOf(ApiError);
  expect(circuit.isOpen).toBe(true);
});

test('a Pet that lacks a field is reported with the name of the field', async () => {
  const { type: _, ...rest } = pet.spec;
  pet = { ...pet, spec: rest as Pet['spec'] };
  await reconcile();
  expect(readyOf()).toMatchObject({ reason: 'InvalidSpec', message: 'spec.type is missing' });
});

test.each([
  [1500, []],
  [400, [600]],
])(
  'in a store that forgets requests, an intent that took %d ms to write leaves its request the rest of the time-out',
  async (tookMs, timeouts) => {
    remembersRequests = false;
    const added: (number | undefined)[] = [];
    onAdd = async (timeoutMs) => {
      added.push(timeoutMs);
      throw new ConnectError('no answer', Code.DeadlineExceeded);
    };
    onStatusWrite = () => {
      now = new Date(now.getTime() + tookMs);
      onStatusWrite = () => {};
    };
    const result = await reconcile();
    // The next attempt comes twice the time-out after the intent. Until then this request must be given up, or not be
    // sent.
    expect(added).toEqual(timeouts);
    if (timeouts.length === 0) expect(result).toEqual({ type: 'requeueAfter', delayMs: 500 });
  },
);

test('an intent that a process with a fast clock wrote delays the pet only for twice the time-out', async () => {
  remembersRequests = false;
  let added = 0;
  onAdd = async () => `pet-${++added}`;
  const since = '2026-01-01T01:00:00.000Z';
  const intent = { name: 'Thor', type: 'dog', birthday: '2021-04-01', requestId: 'r', since } as const;
  pet = { ...pet, status: { intent } };
  expect(await reconcile()).toEqual({ type: 'requeueAfter', delayMs: 2000 });
  expect(added).toBe(0);
  now = new Date(now.getTime() + 1500);
  expect(await reconcile()).toEqual({ type: 'requeueAfter', delayMs: 500 });
  now = new Date(now.getTime() + 500);
  expect(await reconcile()).toEqual({ type: 'done' });
  expect(pet.status?.id).toBe('pet-1');
});

describe.each<[string, object]>([
  ['a day that does not exist', { birthday: '9999-99-99' }],
  ['the year 0', { birthday: '0000-00-00' }],
  ['a request id of two lines', { requestId: 'a\r\nb: c' }],
  ['a request id that no header can carry', { requestId: '世界' }],
  ['no request id', { requestId: '' }],
  ['a time that is none', { since: 'yesterday' }],
])('an intent that the operator cannot have written, with %s,', (_, rest) => {
  const possible = { name: 'Thor', type: 'dog', birthday: '2021-04-01', requestId: 'r', since: '2026-01-01T00:00:00Z' };
  const intent = { ...possible, ...rest } as NonNullable<NonNullable<Pet['status']>['intent']>;

  beforeEach(() => {
    onAdd = async () => 'pet-1';
    onSend = ({ birthday }, requestId) => {
      expect(birthday).toBe('2021-04-01');
      expect(requestId ?? randomUUID()).toMatch(/^[0-9a-f-]{36}$/);
    };
  });

  test('is replaced by one that the store can get', async () => {
    pet = { ...pet, status: { intent } };
    expect(await reconcile()).toEqual({ type: 'done' });
    expect(pet.status?.id).toBe('pet-1');
    expect(pet.status).not.toHaveProperty('intent');
  });

  test('is removed from a Pet that has its pet', async () => {
    await reconcile();
    pet = { ...pet, status: { ...pet.status, intent } };
    expect(await reconcile()).toEqual({ type: 'done' });
    expect(pet.status?.id).toBe('pet-1');
    expect(pet.status).not.toHaveProperty('intent');
  });

  test('does not delay a deletion', async () => {
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    pet = { ...pet, metadata: { ...pet.metadata, deletionTimestamp }, status: { intent } };
    expect(await reconcile()).toEqual({ type: 'done' });
    expect(finalizers).toEqual([]);
  });
});

test('an empty id counts as none', async () => {
  onAdd = async () => 'pet-1';
  onUpdate = async () => {
    throw new RefusedError('no pet has an empty id');
  };
  pet = { ...pet, status: { id: '' } };
  expect(await reconcile()).toEqual({ type: 'done' });
  expect(pet.status?.id).toBe('pet-1');
});

test('a deletion waits, and says so, while a store that forgets requests may still add a pet', async () => {
  remembersRequests = false;
  const since = now.toISOString();
  const intent = { name: 'Thor', type: 'dog', birthday: '2021-04-01', requestId: 'r', since } as const;
  pet = { ...pet, metadata: { ...pet.metadata, deletionTimestamp: since }, status: { intent } };
  expect(await reconcile()).toEqual({ type: 'requeueAfter', delayMs: 2000 });
  expect(readyOf()?.reason).toBe('Deleting');
  expect(readyOf()?.message).toContain('the store may still add a pet');
  now = new Date(now.getTime() + 2000);
  expect(await reconcile()).toEqual({ type: 'done' });
  expect(finalizers).toEqual([]);
});

test('an intent with the request id of another request does not delay a deletion', async () => {
  onAdd = async () => {
    throw new ConnectError('the request id belongs to another request', Code.AlreadyExists);
  };
  const since = '2026-01-01T00:00:00Z';
  const intent = { name: 'Thor', type: 'dog', birthday: '2021-04-01', requestId: 'r', since } as const;
  pet = { ...pet, metadata: { ...pet.metadata, deletionTimestamp: since }, status: { intent } };
  expect(await reconcile()).toEqual({ type: 'done' });
  expect(finalizers).toEqual([]);
});

describe('an Event', () => {
  const conflict = new ApiError('PATCH pets/thor/status', 409, { reason: 'Conflict' });
  const failNextStatusWrite = () => {
    onStatusWrite = () => {
      onStatusWrite = () => {};
      throw conflict;
    };
  };

  beforeEach(async () => {
    onAdd = async () => 'pet-1';
    await reconcile();
    expect(told).toEqual(['Stored']);
    told.length = 0;
  });

  test('about an updated pet is recorded once although its status write has failed', async () => {
    pet = { ...pet, metadata: { ...pet.metadata, generation: 2 }, spec: { ...pet.spec, type: 'cat' } };
    failNextStatusWrite();
    expect(await reconcile()).toBe(conflict);
    expect(told).toEqual([]);
    await reconcile();
    await reconcile();
    expect(told).toEqual(['PetUpdated']);
  });

  test('about a restored pet is recorded although the status does not change', async () => {
    await inventory.compare(
      (async function* () {
        yield { id: 'pet-1', name: 'Loki', type: 'dog', birthday: '2021-04-01' } as const;
      })(),
    );
    await reconcile();
    await reconcile();
    expect(told).toEqual(['PetRestored']);
  });

  test('about a lost pet is recorded once although the store cannot add it for a while', async () => {
    pet = { ...pet, metadata: { ...pet.metadata, generation: 2 }, spec: { ...pet.spec, type: 'cat' } };
    onUpdate = async () => false;
    failNextStatusWrite();
    expect(await reconcile()).toBe(conflict);
    onAdd = async () => {
      throw new ConnectError('the disk is full', Code.ResourceExhausted);
    };
    await reconcile();
    onAdd = async () => 'pet-2';
    onUpdate = async () => true;
    elapsedMs = 1_000_000;
    await reconcile();
    expect(pet.status?.id).toBe('pet-2');
    expect(told.filter((reason) => reason === 'PetLost')).toEqual(['PetLost']);
  });
});

test('an Event is recorded although the answer to the status write is lost', async () => {
  onAdd = async () => 'pet-1';
  afterStatusWrite = () => {
    if (readyOf()?.reason !== 'Stored') return;
    afterStatusWrite = () => {};
    throw new Error('no answer');
  };
  expect(await reconcile()).toBeInstanceOf(Error);
  expect(told).toEqual([]);
  await reconcile();
  await reconcile();
  expect(told).toEqual(['Stored']);
});

test('a Pet that waits reports each outage, with one status write', async () => {
  const fail = (message: string) => async () => {
    throw new ConnectError(message, Code.Unavailable);
  };
  onAdd = fail('first');
  await reconcile();
  expect(readyOf()?.message).toContain('first');
  statusWrites.length = 0;
  elapsedMs += 1_000_000;
  onAdd = fail('second of the same outage');
  await reconcile();
  expect(statusWrites).toEqual([]);
  // Another Pet finds that the store answers, and then that it does not.
  elapsedMs += 1_000_000;
  await circuit.call(async () => {}, new AbortController().signal);
  now = new Date('2026-01-01T01:00:00Z');
  await circuit.call(fail('third'), new AbortController().signal).catch(() => {});
  await reconcile();
  expect(readyOf()?.message).toContain('third (since 2026-01-01T01:00:00.000Z)');
  expect([statusWrites.length, told]).toEqual([1, ['PetStoreUnavailable']]);
});
