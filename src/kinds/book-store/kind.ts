import { defineKind, type ObjectOf } from '@echoperator/runtime';
import * as Type from 'typebox';
import { limits, qualifiedKeys } from '../shared/limits.ts';
import { podMetadata } from '../shared/pod-metadata.ts';

const port = (description: string) => Type.Integer({ format: 'int32', minimum: 1, maximum: 65_535, description });

const count = (description: string, maximum = 2_147_483_647) =>
  Type.Integer({ format: 'int32', minimum: 0, maximum, description });

/** A quantity of 0 or more, as the API server accepts it: a string or an integer. */
const quantity = (description: string) =>
  Type.Unsafe<string | number>({
    'x-kubernetes-int-or-string': true,
    maxLength: limits.quantity,
    pattern: '^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$',
    description,
  });

const quantities = (description: string) =>
  Type.Optional(
    Type.Record(Type.String(), quantity('A quantity, such as `500m` or `1Gi`.'), {
      description,
      maxProperties: 256,
      'x-kubernetes-validations': [qualifiedKeys],
    }),
  );

const resources = Type.Optional(
  Type.Object(
    {
      requests: quantities('The resources that a container is guaranteed.'),
      limits: quantities('The most that a container may use.'),
    },
    { description: 'CPU and memory of each container. Default: those of the namespace’s LimitRange, if it has one.' },
  ),
);

/** Kubernetes takes no larger ID. */
const idBounds = { format: 'int64', minimum: 0, maximum: 2_147_483_647 } as const;

const id = (description: string) => Type.Optional(Type.Integer({ ...idBounds, description }));

const runAs = {
  runAsUser: id('The user ID of the processes.'),
  runAsGroup: id('The primary group ID of the processes.'),
  runAsNonRoot: Type.Optional(
    Type.Boolean({ description: 'Whether the kubelet refuses to run the container as root.' }),
  ),
};

const seccompProfile = Type.Optional(
  Type.Object(
    {
      type: Type.Enum(['RuntimeDefault', 'Unconfined', 'Localhost'], { description: 'The kind of profile.' }),
      localhostProfile: Type.Optional(
        Type.String({ maxLength: limits.path, description: 'The file of the profile on the node, for `Localhost`.' }),
      ),
    },
    { description: 'The seccomp profile.' },
  ),
);

const podSecurityContext = Type.Optional(
  Type.Object(
    {
      ...runAs,
      fsGroup: id('The group that may write to the volumes.'),
      fsGroupChangePolicy: Type.Optional(
        Type.Enum(['Always', 'OnRootMismatch'], {
          description: 'When the kubelet changes the group of a volume’s files. Default: Always.',
        }),
      ),
      supplementalGroups: Type.Optional(
        Type.Array(Type.Integer(idBounds), {
          maxItems: 1024,
          description: 'Additional group IDs of the processes.',
          'x-kubernetes-list-type': 'atomic',
        }),
      ),
      seccompProfile,
    },
    {
      description:
        'The security context of the pods. It replaces the operator’s default, which fits the Pod Security Standard `restricted`; `{}` removes it.',
    },
  ),
);

const capabilityList = (description: string) =>
  Type.Optional(
    // Linux has 41 capabilities.
    Type.Array(Type.String({ minLength: 1, maxLength: limits.labelValue }), {
      maxItems: 128,
      description,
      'x-kubernetes-list-type': 'atomic',
    }),
  );

const securityContext = Type.Optional(
  Type.Object(
    {
      ...runAs,
      allowPrivilegeEscalation: Type.Optional(
        Type.Boolean({ description: 'Whether a process may gain more privileges than its parent.' }),
      ),
      readOnlyRootFilesystem: Type.Optional(
        Type.Boolean({ description: 'Whether the root file system is read-only.' }),
      ),
      capabilities: Type.Optional(
        Type.Object(
          {
            add: capabilityList('The capabilities that the container gets.'),
            drop: capabilityList('The capabilities that the container loses.'),
          },
          { description: 'The Linux capabilities of the container.' },
        ),
      ),
      seccompProfile,
    },
    {
      description:
        'The security context of the container. It replaces the operator’s default, which fits the Pod Security Standard `restricted`; `{}` removes it.',
    },
  ),
);

const keyOfObject = (kind: string) =>
  Type.Optional(
    Type.Object(
      {
        name: Type.String({ maxLength: limits.name, description: `The name of the ${kind}.` }),
        key: Type.String({ maxLength: limits.name, description: `The key in the ${kind}.` }),
        optional: Type.Optional(
          Type.Boolean({ description: `Whether the ${kind} or the key may be missing. Default: false.` }),
        ),
      },
      { description: `A key of a ${kind} in this namespace.` },
    ),
  );

const env = Type.Optional(
  Type.Array(
    Type.Object({
      name: Type.String({ minLength: 1, maxLength: 1024, description: 'The name of the variable.' }),
      value: Type.Optional(
        Type.String({ maxLength: limits.variableValue, description: 'The value of the variable. Default: empty.' }),
      ),
      valueFrom: Type.Optional(
        Type.Object(
          {
            secretKeyRef: keyOfObject('Secret'),
            configMapKeyRef: keyOfObject('ConfigMap'),
            fieldRef: Type.Optional(
              Type.Object(
                {
                  fieldPath: Type.String({
                    maxLength: limits.fieldPath,
                    description: 'The path of the field, such as `metadata.name` or `status.podIP`.',
                  }),
                },
                { description: 'A field of the pod.' },
              ),
            ),
            resourceFieldRef: Type.Optional(
              Type.Object(
                {
                  resource: Type.String({
                    maxLength: limits.fieldPath,
                    description: 'The resource, such as `limits.memory`.',
                  }),
                },
                { description: 'A resource of the container.' },
              ),
            ),
          },
          {
            description: 'Where to read the value from, instead of `value`: exactly one of these.',
            // A server-side apply that removes the last source of a Deployment removes `valueFrom` too: the variable
            // would have no value.
            minProperties: 1,
            maxProperties: 1,
          },
        ),
      ),
    }),
    {
      maxItems: limits.variables,
      description: 'Environment variables of the container.',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
    },
  ),
);

const image = {
  repository: Type.String({
    minLength: 1,
    maxLength: limits.image,
    description: 'The image without its tag, such as `mongo`.',
  }),
  tag: Type.Optional(
    Type.String({ minLength: 1, maxLength: limits.image, description: 'The tag of the image. Default: latest.' }),
  ),
  imagePullPolicy: Type.Optional(
    Type.Enum(['Always', 'IfNotPresent', 'Never'], {
      description: 'When a node pulls the image. Default: IfNotPresent.',
    }),
  ),
};

const serviceNamePattern = '^[a-z]([-a-z0-9]*[a-z0-9])?$';
const maxServiceName = 63;

const serviceName = (description: string) =>
  Type.Optional(Type.String({ pattern: serviceNamePattern, maxLength: maxServiceName, description }));

/**
 * Whether a value that cannot be changed was stored before the schema refused it, in CEL. It may be repaired: no child
 * has it.
 */
const hadInvalid = (field: string, isInvalid: (value: string) => string) =>
  `(has(oldSelf.${field}) && (${isInvalid(`oldSelf.${field}`)}))`;

/** `dbSize` as a quantity, in CEL: the field may be an integer. */
const sizeOf = (self: string) =>
  `(type(${self}.dbSize) == int ? quantity('0').add(${self}.dbSize) : quantity(${self}.dbSize))`;

/**
 * Whether `dbSize` is a quantity, in CEL. Another text may have been stored before the schema had a pattern, and an
 * error refuses each write.
 */
const hasSize = (self: string) => `(type(${self}.dbSize) == int || isQuantity(${self}.dbSize))`;

/** The default of `bookApp.serviceName`. */
export const defaultAppServiceName = 'bookstore-svc';

/** The default of `bookDB.serviceName`. */
export const defaultDatabaseServiceName = 'mongodb-service';

/** The name of the database's Service or its default, in CEL. */
const databaseServiceName = (bookDB: string) =>
  `(has(${bookDB}.serviceName) ? ${bookDB}.serviceName : '${defaultDatabaseServiceName}')`;

/** The page of this kind, for messages. */
export const bookStorePage = 'https://github.com/echoperator/echoperator/blob/main/docs/book-store.md';

/** Why `dbSize` cannot shrink, and what to do instead. It is part of a CEL string, so it contains no quote. */
const shrinkAdvice = `a volume cannot shrink. Create another BookStore for a smaller database. To undo a size that the storage cannot provide, see ${bookStorePage}#growing-a-volume`;

/** Runs a book store: an app and its database. */
export const BookStore = defineKind({
  group: 'blog.velotio.com',
  version: 'v1alpha1',
  kind: 'BookStore',
  plural: 'bookstores',
  shortNames: ['bs'],
  description: 'BookStore runs an app and its database, whose volume can grow.',
  spec: Type.Object(
    {
      bookApp: Type.Object(
        {
          ...image,
          replicas: Type.Optional(
            count(
              'The desired number of pods of the app. If absent, the operator does not set `replicas` of the Deployment, so that an autoscaler can; it starts at 1.',
              limits.replicas,
            ),
          ),
          port: Type.Optional(port('The port of the app’s Service. Default: 80.')),
          targetPort: Type.Optional(port('The port on which the app listens. Default: `port`.')),
          serviceType: Type.Optional(
            Type.Enum(['ClusterIP', 'NodePort', 'LoadBalancer'], {
              description: 'The type of the app’s Service. Default: ClusterIP.',
            }),
          ),
          serviceName: serviceName(
            `The name of the app’s Service. Each BookStore of a namespace needs its own. Default: ${defaultAppServiceName}.`,
          ),
          env,
          resources,
          podMetadata,
          podSecurityContext,
          securityContext,
        },
        { description: 'The app.' },
      ),
      bookDB: Type.Object(
        {
          ...image,
          replicas: Type.Optional(
            count(
              'The desired number of databases. They are independent: each has its own data. Default: 1.',
              limits.replicas,
            ),
          ),
          port: Type.Optional(port('The port on which the database listens. Default: 27017.')),
          dbSize: quantity('The size of the volume of each database, such as `2Gi`. It can grow but not shrink.'),
          serviceName: serviceName(
            `The name of the headless Service by which the app finds the database. Each BookStore of a namespace needs its own. It cannot be changed. Default: ${defaultDatabaseServiceName}.`,
          ),
          storageClassName: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: limits.name,
              description:
                'The StorageClass of the volumes. It cannot be changed. Default: the default class of the cluster.',
            }),
          ),
          dataPath: Type.Optional(
            Type.String({
              pattern: '^/[^:]*$',
              maxLength: limits.path,
              description:
                'The path in the container where the volume is mounted: the data folder of the database. Default: /data/db.',
            }),
          ),
          reclaimPolicy: Type.Optional(
            Type.Enum(['Retain', 'Delete'], {
              description:
                'Whether to keep the data when the BookStore is deleted. Retain: the next BookStore of this name uses it again. Delete: the operator deletes the claims that were created for this BookStore. Default: Retain.',
            }),
          ),
          resizeRestartAfter: Type.Optional(
            Type.String({
              pattern: '^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$',
              maxLength: 32,
              description:
                'How long to wait for the file system of a volume that has grown, such as `90s` or `1h30m`. After that the operator restarts the pod. Most storage drivers need no restart. Default: 5m.',
            }),
          ),
          env,
          resources,
          podMetadata,
          podSecurityContext,
          securityContext,
        },
        {
          description: 'The database.',
          'x-kubernetes-validations': [
            {
              rule: `!has(oldSelf.dbSize) || !${hasSize('oldSelf')} || (has(self.dbSize) && ${hasSize('self')} && ${sizeOf('self')}.compareTo(${sizeOf('oldSelf')}) >= 0)`,
              message: `dbSize cannot shrink: ${shrinkAdvice}`,
              messageExpression: `'dbSize cannot shrink from ' + string(oldSelf.dbSize) + ' to ' + (has(self.dbSize) ? string(self.dbSize) : 'nothing') + ': ${shrinkAdvice}'`,
              fieldPath: '.dbSize',
            },
            {
              // The API server caps each quantity at 2^63 - 1.
              rule: `!has(self.dbSize) || !${hasSize('self')} || (${sizeOf('self')}.isGreaterThan(quantity('0')) && ${sizeOf('self')}.isLessThan(quantity('9223372036854775807')))`,
              message: 'dbSize must be more than 0 and less than 8Ei',
              messageExpression: "'dbSize must be more than 0 and less than 8Ei, got ' + string(self.dbSize)",
              fieldPath: '.dbSize',
            },
            {
              rule: `${hadInvalid('storageClassName', (name) => `${name}.size() == 0 || ${name}.size() > ${limits.name}`)} || (has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName))`,
              message: 'storageClassName cannot be changed: a volume keeps the class that it was created with',
              fieldPath: '.storageClassName',
            },
            {
              rule: `${hadInvalid('serviceName', (name) => `${name}.size() > ${maxServiceName} || !${name}.matches('${serviceNamePattern}')`)} || ${databaseServiceName('self')} == ${databaseServiceName('oldSelf')}`,
              message:
                'serviceName cannot be changed: a StatefulSet keeps the Service that it was created with. Create another BookStore for another name',
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
          rule: `(has(self.bookApp.serviceName) ? self.bookApp.serviceName : '${defaultAppServiceName}') != ${databaseServiceName('self.bookDB')}`,
          message: 'bookApp.serviceName and bookDB.serviceName must differ',
        },
      ],
    },
  ),
  status: Type.Object(
    {
      deploymentName: Type.Optional(
        Type.String({ maxLength: limits.name, description: 'The Deployment that runs the app.' }),
      ),
      appServiceName: Type.Optional(Type.String({ maxLength: limits.name, description: 'The Service of the app.' })),
      appReplicas: Type.Optional(count('The desired number of pods of the app.')),
      appReadyReplicas: Type.Optional(count('The number of pods of the app that are ready.')),
      statefulSetName: Type.Optional(
        Type.String({ maxLength: limits.name, description: 'The StatefulSet that runs the database.' }),
      ),
      databaseServiceName: Type.Optional(
        Type.String({ maxLength: limits.name, description: 'The Service of the database.' }),
      ),
      databaseReplicas: Type.Optional(count('The desired number of databases.')),
      databaseReadyReplicas: Type.Optional(count('The number of databases that are ready.')),
      volumes: Type.Optional(
        Type.Array(
          Type.Object({
            claim: Type.String({ maxLength: limits.name, description: 'The PersistentVolumeClaim.' }),
            capacity: Type.Optional(
              Type.String({ maxLength: limits.quantity, description: 'The `status.capacity` of the claim.' }),
            ),
          }),
          {
            maxItems: limits.volumes,
            description: 'The volumes of the databases, the first 5,000.',
            'x-kubernetes-list-type': 'map',
            'x-kubernetes-list-map-keys': ['claim'],
          },
        ),
      ),
    },
    { description: 'The observed children.' },
  ),
  printerColumns: [
    { name: 'Ready', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].status" },
    { name: 'App', type: 'integer', jsonPath: '.status.appReadyReplicas' },
    { name: 'Database', type: 'integer', jsonPath: '.status.databaseReadyReplicas' },
    { name: 'Requested', type: 'string', jsonPath: '.spec.bookDB.dbSize' },
    // A printer column shows one value: the capacity of the first volume. The databases rarely have different sizes.
    { name: 'Capacity', type: 'string', jsonPath: '.status.volumes[0].capacity' },
    { name: 'Resizing', type: 'string', jsonPath: ".status.conditions[?(@.type=='VolumeResizing')].status" },
    { name: 'Reason', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].reason", priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
});

/** A BookStore as the API server stores it. */
export type BookStore = ObjectOf<typeof BookStore>;

/** The finalizer of a BookStore whose `reclaimPolicy` is Delete: it stays until the operator has deleted its claims. */
export const bookStoreFinalizer = 'blog.velotio.com/delete-data';
