/** Apply without waste: a controller's children are compared with what is wanted, and written only where they differ. */
export { Applier, type ApplyChildOptions, type ApplyResult } from './applier.ts';
export { compareQuantities } from './quantity.ts';
