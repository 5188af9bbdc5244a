import { BookStore } from '../../../src/kinds/book-store/kind.ts';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { Pet } from '../../../src/kinds/pet/kind.ts';
import { PodSet } from '../../../src/kinds/pod-set/kind.ts';
import { PostgresWriter } from '../../../src/kinds/postgres-writer/kind.ts';
import { ScheduledEcho } from '../../../src/kinds/scheduled-echo/kind.ts';
import type { ControllerName } from '../../../src/kinds.ts';
import {
  CronJob,
  Deployment,
  Job,
  PersistentVolumeClaim,
  Pod,
  Service,
  StatefulSet,
} from '../../../src/runtime/kinds/index.ts';
import type { MutationSubject } from '../../../src/runtime/testing/index.ts';

/** What the operator of {@link mutatedSubjects} maintains outside of the cluster. */
export interface Outside {
  /** The rows of a namespace's PostgresWriters in all tables. */
  rows(namespace: string): Promise<unknown>;
  /** The pets of a namespace's Pets, without their ids. */
  pets(namespace: string): Promise<unknown>;
}

// An API server accepts a Deployment whose pods it refuses because of white space around their image, and the old pods run on.
const image = ['example.com/app', 'example.com:5000/team/app', '', 'x'.repeat(300), '世界'];
const tags = ['1.0', 'latest', '', '世界'];
const longKey = 'k'.repeat(400);
const quantities = [
  { cpu: '100m', memory: '64Mi' },
  { cpu: 1 },
  {},
  { cpu: 'much' },
  { memory: '-1' },
  { [longKey]: 1 },
];
const ids = [0, 65_532, 9_223_372_036_854_775_807n.toString(), -1];

/** The values of a BookStore's app or database, whose schemas have much in common. */
const ofContainers = (part: string): Readonly<Record<string, readonly unknown[]>> => ({
  [`${part}.repository`]: image,
  [`${part}.env[].valueFrom`]: [{ fieldRef: { fieldPath: 'metadata.name' } }, {}, 'a text'],
  [`${part}.tag`]: tags,
  [`${part}.replicas`]: [2, 0, 1, -1, 'two'],
  [`${part}.serviceName`]: [`${part.toLowerCase()}-other`, 'Upper', 'x'.repeat(64), 'the-db', 'the-app'],
  [`${part}.resources`]: [
    { requests: { cpu: '100m' }, limits: { cpu: '200m' } },
    { requests: { cpu: 2 }, limits: { cpu: 1 } },
  ],
  [`${part}.resources.requests`]: quantities,
  [`${part}.resources.requests.*`]: ['1', 'much'],
  [`${part}.resources.limits`]: quantities,
  [`${part}.env`]: [
    [{ name: 'A', value: 'b' }],
    [{ name: 'A' }, { name: 'B', value: '世界' }],
    [{ name: 'A' }, { name: 'A' }],
    [],
  ],
  [`${part}.podSecurityContext.runAsUser`]: ids,
  [`${part}.podSecurityContext.supplementalGroups`]: [[1, 2], [], [-1]],
});

/** @param part of the spec, with the dot after it. */
const ofPodMetadata = (part: string) => ({
  [`${part}podMetadata`]: [{ labels: { tier: 'web' }, annotations: { note: 'a' } }, {}, 'a text'],
  [`${part}podMetadata.labels`]: [
    { 'sidecar.istio.io/inject': 'false' },
    {},
    { 'app.kubernetes.io/name': 'other' },
    { 'job-name': 'other' },
    { tier: 'no value / 世界' },
    { [longKey]: 'x' },
    'a text',
  ],
  [`${part}podMetadata.annotations`]: [{ note: 'a' }, {}, { [longKey]: 'x' }, 'a text'],
});

const subjects = (outside: Outside): Readonly<Record<ControllerName, MutationSubject>> => ({
  echo: {
    kind: Echo,
    children: [Job],
    spec: { message: 'hello' },
    values: ofPodMetadata(''),
    // The status is not ours.
    mayDiffer: (path) => path.endsWith('.annotations.mmontes.io/generation') || /^Job .* #1\.status\./.test(path),
  },
  scheduledEcho: {
    kind: ScheduledEcho,
    children: [CronJob],
    spec: { message: 'hello', schedule: '0 0 1 1 *' },
    values: {
      schedule: ['1 2 3 4 *', '@yearly', '* * *', '', 'TZ=UTC 0 0 1 1 *', '0 0 31 2 *'],
      timeZone: ['Europe/Madrid', 'Etc/UTC', 'Mars/Olympus', ''],
      ...ofPodMetadata(''),
    },
  },
  podSet: {
    kind: PodSet,
    children: [Pod],
    followedWhileRefused: ['replicas'],
    spec: { replicas: 2 },
    canonicalName: (name) => name.replace(/-pod-[a-z0-9]{5}\b/g, '-pod-*'),
    values: {
      replicas: [3, 0, 1, -1, 5001, '2'],
      template: [
        { spec: { containers: [{ name: 'a', image: 'example.com/a' }] } },
        {},
        { metadata: { labels: { tier: 'web' } } },
        { spec: { containers: [] } },
        'a text',
      ],
      'template.metadata.labels': [
        { tier: 'web' },
        { tier: 'no value / 世界' },
        {},
        { app: 'other' },
        { version: '2' },
        { 'app.example.com/template-hash': 'x' },
        { [longKey]: 'x' },
        'a text',
      ],
      'template.spec': [
        { containers: [{ name: 'a', image: 'example.com/a' }] },
        { containers: [{ name: 'a', image: 'example.com/b' }], terminationGracePeriodSeconds: 1 },
        { containers: [{ name: 'Upper', image: 'example.com/a' }] },
        { containers: [{ name: 'a', image: 'example.com/a' }], nosuchfield: true },
        {},
      ],
    },
  },
  bookStore: {
    kind: BookStore,
    children: [Deployment, StatefulSet, Service, PersistentVolumeClaim],
    childrenThatStay: [PersistentVolumeClaim],
    // A revision counts the templates, the applier may note once more what it applied, the status is not ours, a context that loses its last member may become an empty one, and the
    // claims of removed replicas stay.
    mayDiffer: (path) =>
      /annotations\.(deployment\.kubernetes\.io\/revision|operator\/applied)$/.test(path) ||
      /^(Deployment|StatefulSet) .*( #1\.status\.|ecurityContext(\.capabilities)?$)/.test(path) ||
      path.startsWith('PersistentVolumeClaim '),
    spec: {
      bookApp: { repository: 'example.com/app', replicas: 1, serviceName: 'the-app' },
      bookDB: {
        repository: 'example.com/db',
        replicas: 1,
        dbSize: '1Gi',
        serviceName: 'the-db',
        storageClassName: 'one',
      },
    },
    values: {
      ...ofContainers('bookApp'),
      ...ofContainers('bookDB'),
      ...ofPodMetadata('bookApp.'),
      ...ofPodMetadata('bookDB.'),
      bookDB: [
        { repository: 'example.com/other', replicas: 1, dbSize: '1Gi', serviceName: 'the-db', storageClassName: 'one' },
        {},
        'a text',
      ],
      // Growth needs a storage driver.
      'bookDB.dbSize': ['1024Mi', '1Mi', '0', 'large', '-1Gi'],
      'bookDB.storageClassName': ['another', ''],
    },
    immutable: ['bookDB.serviceName', 'bookDB.storageClassName'],
    // It decides when a pod is restarted.
    withoutEffect: ['bookDB.resizeRestartAfter'],
  },
  postgresWriter: {
    kind: PostgresWriter,
    children: [],
    spec: { table: 'students', name: 'Ada', age: 36, country: 'UK' },
    values: { table: ['teachers', 'public.students', '"students"', 'nosuchtable', 'a.b.c', '', 7] },
    refusals: ['TableMissing'],
    outside: (namespace) => outside.rows(namespace),
  },
  pet: {
    kind: Pet,
    children: [],
    spec: { name: 'Rex', type: 'dog', birthday: '2020-01-31T00:00:00Z' },
    values: {
      birthday: [
        '2021-02-28T23:30:00+14:00',
        '1900-01-01T00:00:00Z',
        '9999-12-31T23:59:59Z',
        '2021-02-30T00:00:00Z',
        'soon',
      ],
    },
    outside: (namespace) => outside.pets(namespace),
  },
});

/** A subject of each kind, for an operator that runs all controllers. */
export const mutatedSubjects = (outside: Outside): readonly MutationSubject[] => Object.values(subjects(outside));
