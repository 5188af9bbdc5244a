import * as Type from 'typebox';
import { defineKind, type ObjectOf } from '../runtime/index.ts';

const port = (description: string) => Type.Integer({ format: 'int32', minimum: 1, maximum: 65_535, description });

const count = (description: string) =>
  Type.Integer({ format: 'int32', minimum: 0, maximum: 2_147_483_647, description });

/** A quantity as the API server takes it, but for those below 0; it may be a whole number without quotes too. */
const quantity = (description: string) =>
  Type.Unsafe<string | number>({
    'x-kubernetes-int-or-string': true,
    pattern: '^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$',
    description,
  });

const quantities = (description: string) =>
  Type.Optional(Type.Record(Type.String(), quantity('As `500m` or `1Gi`.'), { description }));

const resources = Type.Optional(
  Type.Object(
    {
      requests: quantities('What a container is sure to get.'),
      limits: quantities('What it may use at the most.'),
    },
    { description: 'Processor time and memory of each container. Default: whatever the namespace gives.' },
  ),
);

const inObject = (what: string) =>
  Type.Optional(
    Type.Object(
      {
        name: Type.String({ description: `The ${what}.` }),
        key: Type.String({ description: 'The key in it.' }),
        optional: Type.Optional(Type.Boolean({ description: 'Whether it may be missing. Default: false.' })),
      },
      { description: `A key of a ${what} in this namespace.` },
    ),
  );

const env = Type.Optional(
  Type.Array(
    Type.Object({
      name: Type.String({ minLength: 1, description: 'The variable.' }),
      value: Type.Optional(Type.String({ description: 'Its value. Default: empty.' })),
      valueFrom: Type.Optional(
        Type.Object(
          {
            secretKeyRef: inObject('Secret'),
            configMapKeyRef: inObject('ConfigMap'),
            fieldRef: Type.Optional(
              Type.Object(
                { fieldPath: Type.String({ description: 'As `metadata.name` or `status.podIP`.' }) },
                { description: 'A field of the pod.' },
              ),
            ),
            resourceFieldRef: Type.Optional(
              Type.Object(
                { resource: Type.String({ description: 'As `limits.memory`.' }) },
                { description: 'One of the container’s own resources.' },
              ),
            ),
          },
          { description: 'Where its value stands instead: one of these.' },
        ),
      ),
    }),
    {
      description: 'Environment variables of the container.',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
    },
  ),
);

const image = {
  repository: Type.String({ minLength: 1, description: 'The image, without its tag: `mongo`.' }),
  tag: Type.Optional(Type.String({ minLength: 1, description: 'The tag of the image. Default: latest.' })),
  imagePullPolicy: Type.Optional(
    Type.Enum(['Always', 'IfNotPresent', 'Never'], {
      description: 'When a node pulls the image. Default: IfNotPresent.',
    }),
  ),
};

const serviceName = (description: string) =>
  Type.Optional(Type.String({ pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$', maxLength: 63, description }));

/** A quantity that may be a whole number, in CEL. */
const sizeOf = (self: string) =>
  `(type(${self}.dbSize) == int ? quantity('0').add(${self}.dbSize) : quantity(${self}.dbSize))`;

/** The name of the database's Service, its default included, in CEL. */
const databaseServiceName = (bookDB: string) =>
  `(has(${bookDB}.serviceName) ? ${bookDB}.serviceName : 'mongodb-service')`;

/** Keeps a book shop in the cluster: an app, and the database that it keeps its books in. */
export const BookStore = defineKind({
  group: 'blog.velotio.com',
  version: 'v1alpha1',
  kind: 'BookStore',
  plural: 'bookstores',
  shortNames: ['bs'],
  description: 'BookStore runs an app and the database that it keeps its data in, with a volume that can grow.',
  spec: Type.Object(
    {
      bookApp: Type.Object(
        {
          ...image,
          replicas: Type.Optional(
            count(
              'How many pods of the app there are to be. Left out, the number in the Deployment is nobody’s but that of who sets it there, an autoscaler for instance; it begins with 1.',
            ),
          ),
          port: Type.Optional(port('Where the app’s Service listens. Default: 80.')),
          targetPort: Type.Optional(port('Where the app itself listens. Default: the same as port.')),
          serviceType: Type.Optional(
            Type.Enum(['ClusterIP', 'NodePort', 'LoadBalancer'], {
              description: 'Who can reach the app’s Service. Default: ClusterIP.',
            }),
          ),
          serviceName: serviceName('The app’s Service. One name is one BookStore’s. Default: bookstore-svc.'),
          env,
          resources,
        },
        { description: 'The app.' },
      ),
      bookDB: Type.Object(
        {
          ...image,
          replicas: Type.Optional(
            count(
              'How many databases there are to be. More than one are independent of one another: each has its own data. Default: 1.',
            ),
          ),
          port: Type.Optional(port('Where the database listens. Default: 27017.')),
          dbSize: quantity('How much data a database can hold, `2Gi`. It can grow, and cannot shrink.'),
          serviceName: serviceName(
            'The headless Service under which the app finds the database. One name is one BookStore’s. It cannot be changed. Default: mongodb-service.',
          ),
          storageClassName: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: 253,
              description: 'The StorageClass of the volumes. It cannot be changed. Default: the cluster’s.',
            }),
          ),
          dataPath: Type.Optional(
            Type.String({
              pattern: '^/[^:]*$',
              description: 'Where in the container the volume is: where the database has its files. Default: /data/db.',
            }),
          ),
          reclaimPolicy: Type.Optional(
            Type.Enum(['Retain', 'Delete'], {
              description:
                'What becomes of the data when the BookStore is deleted. Retain: the next BookStore of this name takes it up again. Delete: the claims that were created for this BookStore are deleted. Default: Retain.',
            }),
          ),
          resizeRestartAfter: Type.Optional(
            Type.String({
              pattern: '^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$',
              maxLength: 32,
              description:
                'How long a volume that has grown may wait for its file system to grow too, before the pod is restarted for it: `90s`, `1h30m`. Most grow without. Default: 5m.',
            }),
          ),
          env,
          resources,
        },
        {
          description: 'The database.',
          'x-kubernetes-validations': [
            {
              rule: `!has(oldSelf.dbSize) || (has(self.dbSize) && ${sizeOf('self')}.compareTo(${sizeOf('oldSelf')}) >= 0)`,
              message: 'dbSize cannot shrink: no volume does. A smaller database is another BookStore',
              fieldPath: '.dbSize',
            },
            {
              // No quantity is above 2^63 - 1: more is taken for just that, and would never be what was asked for.
              rule: `!has(self.dbSize) || (${sizeOf('self')}.isGreaterThan(quantity('0')) && ${sizeOf('self')}.isLessThan(quantity('9223372036854775807')))`,
              message: 'dbSize is more than nothing, and less than 8Ei',
              fieldPath: '.dbSize',
            },
            {
              rule: 'has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)',
              message: 'storageClassName cannot be changed: the volumes are of the one that they were made with',
              fieldPath: '.storageClassName',
            },
            {
              rule: `${databaseServiceName('self')} == ${databaseServiceName('oldSelf')}`,
              message:
                'serviceName cannot be changed: a StatefulSet keeps the Service that it was created with. Another name is another BookStore',
              fieldPath: '.serviceName',
            },
          ],
        },
      ),
    },
    {
      description: 'An app and its database.',
      'x-kubernetes-validations': [
        {
          rule: `(has(self.bookApp.serviceName) ? self.bookApp.serviceName : 'bookstore-svc') != ${databaseServiceName('self.bookDB')}`,
          message: 'the Services of the app and of the database need two names',
        },
      ],
    },
  ),
  status: Type.Object(
    {
      deploymentName: Type.Optional(Type.String({ description: 'The Deployment that runs the app.' })),
      appServiceName: Type.Optional(Type.String({ description: 'The Service of the app.' })),
      appReplicas: Type.Optional(count('How many pods of the app there are to be.')),
      appReadyReplicas: Type.Optional(count('How many of them are ready.')),
      statefulSetName: Type.Optional(Type.String({ description: 'The StatefulSet that runs the database.' })),
      databaseServiceName: Type.Optional(Type.String({ description: 'The Service of the database.' })),
      databaseReplicas: Type.Optional(count('How many databases there are to be.')),
      databaseReadyReplicas: Type.Optional(count('How many of them are ready.')),
      volumes: Type.Optional(
        Type.Array(
          Type.Object({
            claim: Type.String({ description: 'The PersistentVolumeClaim.' }),
            capacity: Type.Optional(Type.String({ description: 'How much it holds now.' })),
          }),
          {
            description: 'The databases’ volumes.',
            'x-kubernetes-list-type': 'map',
            'x-kubernetes-list-map-keys': ['claim'],
          },
        ),
      ),
    },
    { description: 'What there is of it.' },
  ),
  printerColumns: [
    { name: 'Ready', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].status" },
    { name: 'App', type: 'integer', jsonPath: '.status.appReadyReplicas' },
    { name: 'Database', type: 'integer', jsonPath: '.status.databaseReadyReplicas' },
    { name: 'Size', type: 'string', jsonPath: '.spec.bookDB.dbSize' },
    { name: 'Resizing', type: 'string', jsonPath: ".status.conditions[?(@.type=='VolumeResizing')].status" },
    { name: 'Reason', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].reason", priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
});

/** A BookStore as the API server stores it. */
export type BookStore = ObjectOf<typeof BookStore>;

/** On a BookStore whose data is deleted with it. */
export const bookStoreFinalizer = 'blog.velotio.com/delete-data';
