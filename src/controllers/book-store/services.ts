import type { BookStore } from '../../api/index.ts';
import { type Client, isConflict, isControlledBy, isNotFound, keyOf, type ReadonlyStore } from '../../runtime/index.ts';
import { Service } from '../built-in-kinds.ts';
import type { Settings } from './settings.ts';

/** Those that a BookStore has under names that it no longer asks for. To be deleted once the others serve. */
export const noLongerWanted = (services: ReadonlyStore<Service>, store: BookStore, { app, database }: Settings) =>
  ownServices(services, store).filter(
    ({ metadata }) => metadata.name !== app.serviceName && metadata.name !== database.serviceName,
  );

/**
 * Those that a BookStore has under the name that its other part is to have by now. The database's is headless, the app's
 * is not, and that of a Service never changes: they have to go before.
 */
export const otherwiseHeadless = (services: ReadonlyStore<Service>, store: BookStore, { app, database }: Settings) =>
  ownServices(services, store).filter(
    ({ metadata, spec }) => metadata.name === (spec?.clusterIP === 'None' ? app.serviceName : database.serviceName),
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
