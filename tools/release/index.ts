/**
 * Builds the artefacts of a release: the bundle, the images of the operator and the pet store, the runtime's npm
 * package, and the release notes. Each file is also a command and documents its usage.
 */

export { buildImage, type Image, ImageError } from './image.ts';
