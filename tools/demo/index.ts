/** `make demo`: a cluster on this machine, the operator installed on it by Helm, and an Echo that prints its message. */
export { type Demo, DemoError, demo, removeDemo, WrongLogError } from './demo.ts';
