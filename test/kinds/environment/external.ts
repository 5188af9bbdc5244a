import type { Pet } from '../../../src/kinds/pet/kind.ts';
import { Database } from '../../e2e/environment/database.ts';
import { cluster } from './cluster.ts';

/** What PostgresWriters and Pets make outside of the cluster's API: rows in the database, pets in the pet store. */

/** The namespace of the release. */
export const release = process.env.KINDS_RELEASE_NAMESPACE ?? '';
export const storePod = 'echoperator-petstore-0';

/** What psql shows of the rows that PostgresWriters of a namespace have, a line each. */
export async function rows(namespace: string): Promise<readonly string[]> {
  const query = `SELECT * FROM students WHERE id LIKE '${namespace}/%' ORDER BY id`;
  return lines(await Database.in(cluster).psql(['--tuples-only', '--no-align', `--command=${query}`]));
}

/** What the store's command line lists in its pod. */
export async function pets(...filter: readonly string[]): Promise<readonly string[]> {
  const list = ['/usr/local/bin/node', '/app/main.js', 'list', ...filter];
  return lines(await cluster.kubectl(['exec', storePod, '--namespace', release, '--', ...list]));
}

export const lines = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');

/** As the command line shows it. */
export const line = ({ status, spec }: Pet): string =>
  `${status?.id}  ${spec.birthday.slice(0, 10)}  ${spec.type.padEnd(7)}  ${spec.name}`;

export const writer = (name: string, namespace: string, spec: object): object => ({
  apiVersion: 'demo.yash.com/v1',
  kind: 'PostgresWriter',
  metadata: { name, namespace },
  spec: { table: 'students', name, age: 20, country: 'Spain', ...spec },
});

export const pet = (name: string, namespace: string, spec: object): object => ({
  apiVersion: 'petstore.example.com/v1alpha1',
  kind: 'Pet',
  metadata: { name, namespace },
  spec: { name, type: 'dog', birthday: '2021-04-01T00:00:00Z', ...spec },
});

export const getPet = (name: string, namespace: string) => cluster.get<Pet>(`pet/${name}`, '--namespace', namespace);

export const allReady = (kind: string, namespace: string) =>
  cluster.kubectl(['wait', '--for=condition=Ready', kind, '--all', '--namespace', namespace, '--timeout=120s']);
