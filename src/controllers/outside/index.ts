/** What controllers of kinds that live outside of the cluster have in common: an outside that may be down, or not configured. */
export { Circuit, type CircuitOptions, type Clock } from './circuit.ts';
export { addDisabledController, disabledPermissions } from './disabled-controller.ts';
export { OutsideDownError } from './outside-down-error.ts';
export { outsideUp } from './outside-up.ts';
