/**
 * The programs that clusters and tests run, pinned by the Go modules in the folders here and built once into the user's
 * cache.
 *
 * To move a pin: `go get MODULE@VERSION && go mod tidy` in its folder. Kubernetes has its staging modules beside it: all of
 * the `replace` lines move with k8s.io/kubernetes v1.N to v0.N.
 */
export { BuildError, type EnsureOptions, ensureBinaries, ensureBinFolder, ensureIn } from './build.ts';
export { type BinaryName, catalogue } from './catalogue.ts';
