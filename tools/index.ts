/**
 * What the project needs on a machine and brings itself: the programs of a Kubernetes cluster, pinned by the Go modules
 * in the folders here and built once into the user's cache, and Debian's packages.
 *
 * To move a pin: `go get MODULE@VERSION && go mod tidy` in its folder. Kubernetes has its staging modules beside it: all of
 * the `replace` lines move with k8s.io/kubernetes v1.N to v0.N.
 */
export { AssetsError } from './binaries/assets.ts';
export { BuildError } from './binaries/build-binary.ts';
export type { BinaryName } from './binaries/catalogue.ts';
export { type EnsureOptions, ensureBinaries, ensureBinFolder } from './binaries/ensure.ts';
export { GoToolchainError } from './binaries/go-toolchain.ts';
export { cacheFolder } from './cache-folder.ts';
export { clusterPackages, ensureDebianPackages, PackagesError, type PackagesOptions } from './debian.ts';
export { ExclusiveLock } from './exclusive-lock.ts';
export { type Display, type Report, runSteps, type Step, standardDisplay } from './steps.ts';
