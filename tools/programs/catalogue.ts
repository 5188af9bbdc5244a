/** A program for clusters and tests, built from the Go module in `tools/programs/<group>`. */
export interface Binary {
  readonly name: string;
  /**
   * The folder in `tools/programs` whose go.mod pins the program. Programs of a group share dependencies and a cache
   * key.
   */
  readonly group: string;
  /** The main package: an import path, or a folder with the group's own sources. */
  readonly package: string;
  /** Build tags. */
  readonly tags?: readonly string[];
  /** Go variables that the linker sets, so that the program knows its version. */
  readonly stamp?: (versionOf: VersionOf) => Readonly<Record<string, string>>;
  /** Whether KUBEBUILDER_ASSETS, if set, must contain the program (`required`) or may contain it (`optional`). */
  readonly assets?: 'required' | 'optional';
  /** Estimated build time on two cores. The first program of a group includes the shared dependencies. */
  readonly seconds: number;
}

/**
 * Returns the version of a module in the group's go.mod.
 *
 * @throws BuildError if go.mod does not require the module
 */
export type VersionOf = (module: string) => string;

/** Sets the same variables as Kubernetes' build. Without them every component reports the version v0.0.0-master. */
const kubernetesVersion = (versionOf: VersionOf): Record<string, string> => {
  const version = versionOf('k8s.io/kubernetes');
  const [major = '', minor = ''] = version.slice(1).split('.');
  return Object.fromEntries(
    ['k8s.io/client-go/pkg/version', 'k8s.io/component-base/version'].flatMap((path) => [
      [`${path}.gitVersion`, version],
      [`${path}.gitMajor`, major],
      [`${path}.gitMinor`, minor],
    ]),
  );
};

const kubernetes = <const Name extends string>(name: Name, seconds: number) => ({
  name,
  group: 'kubernetes' as const,
  package: `k8s.io/kubernetes/cmd/${name}`,
  stamp: kubernetesVersion,
  seconds,
});

/** A program of the oldest Kubernetes that the chart supports. */
const oldestKubernetes = <const Name extends string>(program: Name, seconds: number) => ({
  name: `${program}-oldest` as const,
  group: 'kubernetes-oldest' as const,
  package: `k8s.io/kubernetes/cmd/${program}`,
  stamp: kubernetesVersion,
  seconds,
});

const containerdVersion = (versionOf: VersionOf): Record<string, string> => ({
  'github.com/containerd/containerd/v2/version.Version': versionOf('github.com/containerd/containerd/v2'),
});

const containerd = <const Name extends string>(name: Name, seconds: number) => ({
  name,
  group: 'containerd' as const,
  package: `github.com/containerd/containerd/v2/cmd/${name}`,
  stamp: containerdVersion,
  seconds,
});

/** Without service discovery, which would bring the clients of all clouds: the targets come from a file. */
const prometheus = <const Name extends string>(name: Name, seconds: number) => ({
  name,
  group: 'prometheus' as const,
  package: `github.com/prometheus/prometheus/cmd/${name}`,
  tags: ['remove_all_sd'],
  stamp: (versionOf: VersionOf) => ({
    'github.com/prometheus/common/version.Version': versionOf('github.com/prometheus/prometheus').slice(1),
  }),
  seconds,
});

/** Also sets the Kubernetes version for which Helm 3 renders charts. Helm 4 reads it from its modules. */
const helm3Version = (versionOf: VersionOf): Record<string, string> => {
  const [, minor = ''] = versionOf('k8s.io/client-go').split('.');
  return {
    'helm.sh/helm/v3/internal/version.version': versionOf('helm.sh/helm/v3'),
    'helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor': '1',
    'helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor': minor,
    'helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor': '1',
    'helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor': minor,
  };
};

const helm4Version = (versionOf: VersionOf): Record<string, string> => ({
  'helm.sh/helm/v4/internal/version.version': versionOf('helm.sh/helm/v4'),
});

/**
 * All programs in build order: first those that the integration tests need.
 *
 * Most of the build time goes into libraries such as client-go, which are compiled once per group. Therefore programs
 * that work with Kubernetes' versions of these libraries are in the group `kubernetes`, and those that require later
 * versions in `extras`.
 */
export const catalogue = [
  { name: 'etcd', group: 'etcd', package: 'go.etcd.io/etcd/server/v3', assets: 'required', seconds: 47 },
  { ...kubernetes('kube-apiserver', 178), assets: 'required' },
  kubernetes('kube-controller-manager', 50),
  { name: 'kwok', group: 'kubernetes', package: 'sigs.k8s.io/kwok/cmd/kwok', seconds: 40 },
  { ...kubernetes('kubectl', 20), assets: 'optional' },
  { name: 'election-candidate', group: 'kubernetes', package: './election-candidate', seconds: 3 },
  { name: 'helm', group: 'extras', package: 'helm.sh/helm/v3/cmd/helm', stamp: helm3Version, seconds: 60 },
  containerd('containerd', 46),
  { ...containerd('containerd-shim-runc-v2', 1), tags: ['no_grpc'] },
  containerd('ctr', 4),
  kubernetes('kubelet', 16),
  kubernetes('kube-scheduler', 5),
  kubernetes('kube-proxy', 7),
  { name: 'coredns', group: 'extras', package: './coredns', seconds: 51 },
  { name: 'volume-driver', group: 'extras', package: './volume-driver', seconds: 60 },
  { name: 'actionlint', group: 'actionlint', package: 'github.com/rhysd/actionlint/cmd/actionlint', seconds: 40 },
  { name: 'helm4', group: 'extras', package: 'helm.sh/helm/v4/cmd/helm', stamp: helm4Version, seconds: 40 },
  oldestKubernetes('kube-apiserver', 150),
  oldestKubernetes('kube-controller-manager', 50),
  prometheus('promtool', 95),
  prometheus('prometheus', 35),
  { name: 'registry', group: 'registry', package: '.', seconds: 40 },
] as const satisfies readonly Binary[];

export type BinaryName = (typeof catalogue)[number]['name'];
