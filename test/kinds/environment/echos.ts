import { cluster } from './cluster.ts';

/** Waits until an Echo has printed. */
export const printed = (name: string, namespace: string) =>
  cluster.kubectl(['wait', '--for=condition=Ready', `echo/${name}`, '--namespace', namespace, '--timeout=90s']);

/** Waits until every Echo of a namespace has printed. */
export const allPrinted = (namespace: string) =>
  cluster.kubectl(['wait', '--for=condition=Ready', 'echo', '--all', '--namespace', namespace, '--timeout=240s']);
