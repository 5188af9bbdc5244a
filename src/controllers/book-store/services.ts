import type { BookStore } from '../../api/index.ts';
import { type Client, isConflict, isControlledBy, isNotFound, keyOf, type ReadonlyStore } from '../../runtime/index.ts';
import { Service } from '../built-in-kinds.ts';
import type { Settings } from './settings.ts';

/** Those that a BookStore has under names that it no longer asks for. To be deleted once the others serve. */
export const noLongerWanted = (services: ReadonlyStore<Service>, store: BookStore, { app, database }: Settings) =>
  ownServices(services, store).filter(
    ({ metadata }) => metadata.name !== app.serviceName && metadata.name !== database.serviceName,
  );

const ownServices = (services: ReadonlyStore<Service>, store: BookStore): readonly Service[] =>
  [...services.byOwner(store.metadata.uid)].filter(
    (service) => isControlledBy(service, store) && service.metadata.deletionTimestamp === undefined,
  );

/** @throws whatever the client throws; one that is gone, or has been followed by another of its name, is no error. */
export async function deleteServices(client: Client, services: readonly Service[]): Promise<void> {
  for (const service of services) {
    try {
      await client.delete(Service, keyOf(service), { uid: service.metadata.uid });
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }
}
