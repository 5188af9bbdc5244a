export { eventually } from '../../../src/runtime/testing/eventually.ts';
