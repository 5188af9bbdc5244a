import { readConfig } from '../src/config.ts';
import { bookStorePodDefaults, printPodSettings } from '../src/operator.ts';

/** The default settings of the pods that print. */
export const podSettings = printPodSettings(readConfig({}));

/** The defaults of a BookStore's pods. */
export const bookStoreDefaults = bookStorePodDefaults(readConfig({}));
