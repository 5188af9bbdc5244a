import { readConfig } from '../src/config.ts';
import { bookStorePodDefaults, podDefaults } from '../src/operator.ts';

/** The settings of the operator's pods by default. */
export const podSettings = { image: 'busybox:1.36', podDefaults: podDefaults(readConfig({})) };

/** The defaults of a BookStore's pods. */
export const bookStoreDefaults = bookStorePodDefaults(readConfig({}));
