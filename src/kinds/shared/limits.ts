/**
 * The bounds of strings, lists and maps that several kinds share: what Kubernetes, Linux or a registry accepts at most,
 * or a multiple of what anybody needs. Each string, list and map of a kind has a bound, so that no object is costly to
 * handle (test/unit/bounds.test.ts).
 */
export const limits = {
  /** The name of an object (RFC 1123 subdomain), and the key of a ConfigMap or a Secret. */
  name: 253,
  /** The value of a label. */
  labelValue: 63,
  /**
   * The key of a label or an annotation, or the name of a resource: a prefix of 253 characters, a slash, and 63
   * characters.
   */
  qualifiedName: 317,
  /** All annotations of an object together have at most 256 KiB. */
  annotationValue: 262_144,
  /** The labels or the annotations of an object. Kubernetes limits only their size. */
  labels: 1024,
  /** The labels or the annotations that a spec adds to the pods of its object. */
  podMetadata: 64,
  /** The value of such an annotation. The longest configure the sidecars of a mesh or a secret store. */
  podAnnotationValue: 16_384,
  /** A repository or a tag with a digest. A registry accepts 255 and 128 characters. */
  image: 1024,
  /** A path on Linux (PATH_MAX). */
  path: 4096,
  /** The variables of a container. Kubernetes has no limit. */
  variables: 1024,
  /** Linux starts no process with a longer variable (MAX_ARG_STRLEN). */
  variableValue: 131_072,
  /** The path of a pod's field: at most `metadata.annotations['KEY']`. */
  fieldPath: 512,
  /** A quantity: 2^63 with nine decimals has 29 characters. */
  quantity: 64,
  /** An RFC 3339 time. The format allows any number of decimals. */
  time: 64,
  /** The Jobs in the status of a ScheduledEcho. Its CronJob forbids concurrent ones, so there is usually one. */
  activeJobs: 1000,
  /**
   * The replicas of a BookStore's app or database. kube-controller-manager allocates memory for each replica of a
   * StatefulSet before it creates any.
   */
  replicas: 1000,
  /** The pods of a PodSet: the status names each, and etcd takes objects of up to 1.5 MiB. */
  pods: 5000,
  /**
   * The values in the spec of a PodSet's template: texts, numbers, lists and maps. A large pod has a few hundred. The
   * API server takes seconds to refuse 2,500 invalid containers, and over half a minute for 10,000: its time grows with
   * the square of the number of errors.
   */
  templateValues: 2500,
  /** The volumes in the status of a BookStore. */
  volumes: 5000,
  /**
   * The tables in the status of a PostgresWriter: two while its row moves, and more only if a table that it left
   * refuses the deletion.
   */
  tables: 1000,
  petName: 1024,
  /**
   * The name in an intent that was stored before names had a bound. It is also the most bytes of a name that the
   * operator sends.
   */
  storedPetName: 200_000,
  /** The id of a pet, which the store chooses. */
  petId: 1024,
  /** The pets in `status.intent.present` of a Pet. etcd takes fewer. */
  presentPets: 50_000,
} as const;

/** For a map whose keys are the keys of labels or the names of resources. A schema cannot bound the keys of a map. */
export const qualifiedKeys = {
  rule: `self.all(key, key.size() <= ${limits.qualifiedName})`,
  message: `a key has at most ${limits.qualifiedName} characters`,
} as const;
