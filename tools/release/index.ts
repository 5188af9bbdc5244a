/**
 * What users get, made from this repository: the bundle that a pod runs, the images of the operator and the pet store,
 * the runtime's npm package, and the notes of a release. Each is a command too, and its file says how to call it.
 */
export { bundle } from './bundle.ts';
export { buildImage, type Image, ImageError } from './image.ts';
