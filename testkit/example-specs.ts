import type { ControllerName } from '../src/kinds.ts';

/** A valid spec of each kind, with few fields. */
export const exampleSpecs: Readonly<Record<ControllerName, object>> = {
  echo: { message: 'hello' },
  scheduledEcho: { message: 'hello', schedule: '0 * * * *' },
  podSet: { replicas: 0, template: { spec: { containers: [{ name: 'a', image: 'x:1', args: ['a'] }] } } },
  bookStore: {
    bookApp: {
      repository: 'app',
      replicas: 1,
      port: 80,
      targetPort: 3000,
      serviceType: 'ClusterIP',
      env: [{ name: 'A', value: '1' }],
    },
    bookDB: { repository: 'mongo', replicas: 1, port: 27017, dbSize: '2Gi' },
  },
  pet: { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' },
  postgresWriter: { table: 'students', name: 'Alice', age: 23, country: 'Spain' },
};
