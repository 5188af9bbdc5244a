/** `make demo`: brings up a cluster on this machine, installs the operator with Helm, and runs an Echo. */
export { DemoError, removeDemo, runDemo } from './demo.ts';
