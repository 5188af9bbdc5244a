import type { Config } from './config.ts';
import { addEchoController } from './controllers/index.ts';
import type { EventRecorder, Manager } from './runtime/index.ts';

/** Adds the controllers that the config asks for. */
export function addControllers(manager: Manager, config: Config, events: EventRecorder): void {
  const { echoImage: image, numWorkers: workers, watchNamespaces: namespaces } = config;
  addEchoController(manager, { events, image, workers, namespaces });
}
