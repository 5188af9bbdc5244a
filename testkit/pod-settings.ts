import { readConfig } from '../src/config.ts';
import { bookStorePodDefaults, printPodSettings } from '../src/operator.ts';

/** The settings of the operator's pods by default. */
export const podSettings = printPodSettings(readConfig({}));

/** The defaults of a BookStore's pods. */
export const bookStoreDefaults = bookStorePodDefaults(readConfig({}));
