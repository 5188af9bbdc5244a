// biome-ignore-all lint/suspicious/noTemplateCurlyInString: texts of the source

/** A later version of the operator: the source with one text replaced. */
export interface Version {
  /** What the version changes: `BookStore: another default port`. */
  readonly name: string;
  /** The path of the file. */
  readonly file: string;
  /** The text to replace. The file has it exactly once. */
  readonly find: string;
  readonly replace: string;
  /** The version changes nothing that the objects of the test show. Default false. */
  readonly isSilent?: true;
}

const version = (name: string, file: string, find: string, replace: string): Version => ({
  name,
  file: `src/kinds/${file}`,
  find,
  replace,
});

/** A version that changes nothing which the objects of the test show. */
const silent = (...args: Parameters<typeof version>): Version => ({ ...version(...args), isSilent: true });

/** Each changes what the first reconciles of objects write, except the silent ones. */
export const versions: readonly Version[] = [
  // Pods that print. Jobs of Echos are created once, so only CronJobs change.
  version(
    'print: a service account token',
    'shared/print-pod.ts',
    'automountServiceAccountToken: false',
    'automountServiceAccountToken: true',
  ),
  version('print: service links', 'shared/print-pod.ts', 'enableServiceLinks: false', 'enableServiceLinks: true'),
  version(
    'print: another pull policy',
    'shared/print-pod.ts',
    "imagePullPolicy: 'IfNotPresent'",
    "imagePullPolicy: 'Always'",
  ),
  version(
    'print: another command',
    'shared/print-pod.ts',
    "command: ['printf', '%s\\\\n',",
    "command: ['printf', '%b\\\\n',",
  ),
  version(
    'print: another container',
    'shared/print-pod.ts',
    "name: 'echo',\n          image,",
    "name: 'print',\n          image,",
  ),
  version(
    'print: another restart policy',
    'shared/print-pod.ts',
    "restartPolicy: 'Never'",
    "restartPolicy: 'OnFailure'",
  ),
  version(
    'print: another label',
    'shared/print-pod.ts',
    "'app.kubernetes.io/managed-by': 'echoperator',",
    "'app.kubernetes.io/managed-by': 'echoperator',\n  'app.kubernetes.io/part-of': 'echos',",
  ),
  // Echo.
  version(
    'Echo: another annotation of the Job',
    'echo/echo-job.ts',
    "const generationAnnotation = 'mmontes.io/generation'",
    "const generationAnnotation = 'mmontes.io/echo-generation'",
  ),
  version(
    'Echo: another name of the Job',
    'echo/echo-job.ts',
    'childName(metadata.name, maxJobNameLength)',
    'childName(`job-${metadata.name}`, maxJobNameLength)',
  ),
  version(
    'Echo: another message',
    'echo/controller.ts',
    '`Job ${name} prints the message`',
    '`Job ${name} is printing the message`',
  ),
  version(
    'Echo: another reason',
    'echo/controller.ts',
    "if (status.phase === 'Failed') {",
    "if (status.phase === 'Pending') return { reason: 'JobFailed', message: 'not started', status };\n  if (status.phase === 'Failed') {",
  ),
  silent(
    'Echo: the printed generation is forgotten',
    'echo/controller.ts',
    'status?.completedGeneration === metadata.generation',
    'status?.completedGeneration === metadata.generation + 1',
  ),
  // ScheduledEcho.
  version(
    'ScheduledEcho: another concurrency policy',
    'scheduled-echo/cron-job.ts',
    "concurrencyPolicy: 'Forbid'",
    "concurrencyPolicy: 'Replace'",
  ),
  version(
    'ScheduledEcho: a history limit',
    'scheduled-echo/cron-job.ts',
    "concurrencyPolicy: 'Forbid',",
    "concurrencyPolicy: 'Forbid',\n      successfulJobsHistoryLimit: 1,",
  ),
  version(
    'ScheduledEcho: a field is removed',
    'scheduled-echo/cron-job.ts',
    "      concurrencyPolicy: 'Forbid',\n",
    '',
  ),
  version(
    'ScheduledEcho: the CronJob is renamed',
    'scheduled-echo/cron-job.ts',
    'hashedChildName(metadata.name, maxCronJobNameLength);',
    'hashedChildName(`v2-${metadata.name}`, maxCronJobNameLength);',
  ),
  version('ScheduledEcho: suspended by default', 'scheduled-echo/cron-job.ts', 'suspend = false', 'suspend = true'),
  version(
    'ScheduledEcho: an invalid CronJob',
    'scheduled-echo/cron-job.ts',
    "concurrencyPolicy: 'Forbid'",
    "concurrencyPolicy: 'Forbidden' as 'Forbid'",
  ),
  // PodSet.
  version(
    'PodSet: pods are replaced',
    'pod-set/pod.ts',
    "const defaultTemplateHash = 'default'",
    "const defaultTemplateHash = 'v2'",
  ),
  version('PodSet: another hash of templates', 'pod-set/pod.ts', "createHash('sha256')", "createHash('sha512')"),
  version('PodSet: another label', 'pod-set/pod.ts', "version: 'v0.1' }", "version: 'v0.2' }"),
  silent(
    'PodSet: another grace period of new pods',
    'pod-set/pod.ts',
    'terminationGracePeriodSeconds: 1',
    'terminationGracePeriodSeconds: 2',
  ),
  // BookStore.
  version(
    'BookStore: another default port of the app',
    'book-store/desired.ts',
    'const { port = 80 } = bookApp',
    'const { port = 8080 } = bookApp',
  ),
  version(
    'BookStore: another default port of the database',
    'book-store/desired.ts',
    'bookDB.port ?? 27_017',
    'bookDB.port ?? 27_018',
  ),
  version('BookStore: another default tag', 'book-store/desired.ts', "tag = 'latest'", "tag = 'stable'"),
  version(
    'BookStore: another default pull policy',
    'book-store/desired.ts',
    "imagePullPolicy ?? 'IfNotPresent'",
    "imagePullPolicy ?? 'Always'",
  ),
  version(
    'BookStore: another default path of the data',
    'book-store/desired.ts',
    "bookDB.dataPath ?? '/data/db'",
    "bookDB.dataPath ?? '/var/lib/db'",
  ),
  version(
    'BookStore: another label of objects',
    'book-store/desired.ts',
    "'app.kubernetes.io/managed-by': 'echoperator',",
    "'app.kubernetes.io/managed-by': 'echoperator-2',",
  ),
  version(
    'BookStore: an immutable selector changes',
    'book-store/desired.ts',
    "'app.kubernetes.io/name': 'bookstore',",
    "'app.kubernetes.io/name': 'book-store',",
  ),
  version(
    'BookStore: the Deployment is renamed',
    'book-store/desired.ts',
    "maxDeploymentNameLength - '-app'.length)}-app`",
    "maxDeploymentNameLength - '-web'.length)}-web`",
  ),
  version(
    'BookStore: another default type of the Service',
    'book-store/desired.ts',
    "bookApp.serviceType ?? 'ClusterIP'",
    "bookApp.serviceType ?? 'NodePort'",
  ),
  version(
    'BookStore: another default number of databases',
    'book-store/desired.ts',
    'bookDB.replicas ?? 1',
    'bookDB.replicas ?? 2',
  ),
  version(
    'BookStore: the replicas of the app are ours',
    'book-store/desired.ts',
    'replicas: bookApp.replicas,',
    'replicas: bookApp.replicas ?? 1,',
  ),
  // Kinds with an external system: the writes before the first call.
  version(
    'Pet: another finalizer',
    'pet/kind.ts',
    "petFinalizer = 'pet.petstore.example.com'",
    "petFinalizer = 'pet-2.petstore.example.com'",
  ),
  version(
    'PostgresWriter: another finalizer',
    'postgres-writer/kind.ts',
    'demo.yash.com/cleanup-row',
    'demo.yash.com/clean-row',
  ),
];
