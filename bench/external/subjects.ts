import { randomUUID } from 'node:crypto';
import {
  type Client,
  cleanedUp,
  done,
  finalizer,
  type Kind,
  type KubeObject,
  type Manifest,
  patchStatus,
} from '@echoperator/runtime';
import { desiredStatus } from '@echoperator/runtime/controller';
import { Pet, petFinalizer } from '../../src/kinds/pet/kind.ts';
import { petReasons } from '../../src/kinds/pet/reasons.ts';
import { wantedPet } from '../../src/kinds/pet/store-pet.ts';
import { PostgresWriter, postgresWriterFinalizer } from '../../src/kinds/postgres-writer/kind.ts';
import { postgresWriterReasons } from '../../src/kinds/postgres-writer/reasons.ts';
import { namespace } from '../api-server.ts';
import type { Figures } from '../measurements.ts';
import type { Plan } from '../plan.ts';
import type { External } from './external.ts';
import { startPetStore } from './pet-store.ts';
import { startRowDatabase } from './row-database.ts';

/** Sends the operator's writes for one object to the API server, and nothing to the external system. */
export type BareWrites = (writer: Client) => Promise<void>;

/** A kind whose objects have a part in an external system. */
export interface Subject {
  readonly scenario: 'rows' | 'pets';
  readonly plural: string;
  countOf(plan: Plan): number;
  /** Creates an object. */
  create(client: Client, index: number): Promise<BareWrites>;
  /** Returns the figures for the time until all objects were served, and its CPU time. */
  figures(count: number, seconds: number, cpuSeconds: number): Figures;
  /** Starts the external system. @param folder of the run */
  external(count: number, folder: string): Promise<External>;
}

const rowTable = 'public.students';

const writers: Subject = {
  scenario: 'rows',
  plural: PostgresWriter.plural,
  countOf: ({ postgresWriters }) => postgresWriters,
  create: async (client, index) => {
    const name = `row-${index}`;
    const spec = { table: 'students', name, age: 21, country: 'Peru' };
    const created = await client.create(PostgresWriter, manifest<PostgresWriter>(name, spec));
    return (writer) =>
      guarded(writer, PostgresWriter, created, postgresWriterFinalizer, async (object) => {
        const noted = await patchStatus(writer, PostgresWriter, object, { tables: [rowTable] });
        if (noted === undefined) throw new Error(`${name} has a status already`);
        const written = {
          reason: 'RowWritten',
          message: `the row is in ${rowTable}`,
          status: { tables: [rowTable] },
        } as const;
        const status = desiredStatus<PostgresWriter, keyof typeof postgresWriterReasons>(
          postgresWriterReasons,
          noted,
          written,
          new Date(),
        );
        await patchStatus(writer, PostgresWriter, noted, status);
      });
  },
  figures: (_, seconds, cpuSeconds) => ({ rowsSeconds: seconds, rowsCpu: cpuSeconds }),
  external: startRowDatabase,
};

const pets: Subject = {
  scenario: 'pets',
  plural: Pet.plural,
  countOf: (plan) => plan.pets,
  create: async (client, index) => {
    const name = `pet-${index}`;
    const spec = { name, type: 'dog', birthday: '2020-02-29T00:00:00Z' } as const;
    const created = await client.create(Pet, manifest<Pet>(name, spec));
    return (writer) =>
      guarded(writer, Pet, created, petFinalizer, async (object) => {
        const intent = { ...wantedPet(spec), requestId: randomUUID(), since: new Date().toISOString() };
        const adding = { reason: 'Adding', message: 'the pet is being added to the store' } as const;
        const { conditions } = desiredStatus(petReasons, object, adding, new Date());
        const noted = await patchStatus(writer, Pet, object, { id: null, intent, ...(conditions && { conditions }) });
        if (noted === undefined) throw new Error(`${name} has a status already`);
        const id = randomUUID();
        const stored = {
          reason: 'Stored',
          message: `pet ${id} is in the store`,
          status: { id, intent: null },
        } as const;
        const status = desiredStatus<Pet, keyof typeof petReasons>(petReasons, noted, stored, new Date());
        await patchStatus(writer, Pet, noted, status);
      });
  },
  figures: (count, seconds, cpuSeconds) => ({ petsPerSecond: count / seconds, petsCpu: cpuSeconds }),
  external: startPetStore,
};

export const subjects: readonly Subject[] = [writers, pets];

const manifest = <T extends KubeObject & { readonly spec: object }>(name: string, spec: T['spec']): Manifest<T> =>
  // The type requires a generation, which the server ignores and sets itself.
  ({ metadata: { name, namespace, generation: 0 }, spec }) as Manifest<T>;

async function guarded<T extends KubeObject>(
  client: Client,
  kind: Kind<T>,
  object: T,
  name: string,
  write: (object: T) => Promise<void>,
): Promise<void> {
  const apply = async (present: T) => {
    await write(present);
    return done;
  };
  await finalizer({ client, kind, object, name, apply, cleanup: async () => cleanedUp });
}
