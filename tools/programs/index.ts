/**
 * The programs for clusters and tests, pinned by the Go modules in these folders and built once into the user's cache.
 *
 * To change a version, run `go get MODULE@VERSION && go mod tidy` in its folder. For k8s.io/kubernetes v1.N, also
 * change every `replace` line of its staging modules to v0.N. `kubernetes-oldest` is the version that the chart's
 * kubeVersion claims.
 */
export { ensureBinaries, ensureBinariesIn, ensureBinFolder } from './build.ts';
export { type BinaryName, catalogue } from './catalogue.ts';
export { BuildError } from './go.ts';
