/** Shared by controllers whose kinds describe objects in a system outside of the cluster, which may be down, slow or not configured. */
export { Batch, InFlightCount } from './batch.ts';
export { Circuit, type CircuitOptions, OutsideDownError } from './circuit.ts';
export { KeyedMutex, LinkedSignal, Semaphore, untilAborted } from './concurrency.ts';
export { outsideUp } from './outside-up.ts';
