/** `make demo`: brings up a cluster on this machine, installs the operator with Helm, and runs an Echo. */
export { type Demo, DemoError, removeDemo, runDemo, WrongLogError } from './demo.ts';
