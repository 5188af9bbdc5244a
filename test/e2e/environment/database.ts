import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { type E2eCluster, listOf } from './cluster.ts';
import { postgresUser } from './postgres-image.ts';

const namespace = 'database';
const name = 'postgres';

/** A PostgreSQL in a pod, for a whole run. It uses TLS and has a database `school` and only the superuser's role. */
export class Database {
  /** The name of its Service and of its certificate. */
  static readonly host = `${name}.${namespace}.svc`;
  readonly #cluster: E2eCluster;

  private constructor(cluster: E2eCluster) {
    this.#cluster = cluster;
  }

  /** Returns the database that was started before. */
  static in(cluster: E2eCluster): Database {
    return new Database(cluster);
  }

  /**
   * Creates the database's objects. {@link ready} waits until it accepts connections. Its image must be on the nodes.
   *
   * @param authorityFile the path to write the certificate to, which clients must trust
   */
  static async start(cluster: E2eCluster, authorityFile: string): Promise<Database> {
    const tls = await certificateFor(Database.host);
    await writeFile(authorityFile, tls.certificate);
    await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
    const stringData = { 'tls.crt': tls.certificate, 'tls.key': tls.key, POSTGRES_PASSWORD: 'of the superuser' };
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, stringData };
    await cluster.apply(listOf([secret, service, pod]));
    return new Database(cluster);
  }

  async ready(): Promise<void> {
    const timeout = '--timeout=120s';
    await this.#cluster.kubectl(['wait', '--for=condition=Ready', `pod/${name}`, '--namespace', namespace, timeout]);
  }

  /** Runs psql and returns its output. @throws ExecaError with its error output */
  psql(args: readonly string[], input?: string): Promise<string> {
    const exec = ['exec', '--stdin', name, '--namespace', namespace, '--'];
    return this.#cluster.kubectl([...exec, 'psql', '--dbname=school', '--set=ON_ERROR_STOP=1', ...args], input);
  }
}

const labels = { app: name };

const service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace },
  spec: { selector: labels, ports: [{ port: 5432 }] },
};

const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace, labels },
  spec: {
    securityContext: { runAsUser: postgresUser, runAsGroup: postgresUser, fsGroup: postgresUser },
    terminationGracePeriodSeconds: 5,
    containers: [
      {
        name,
        image: 'postgres:18',
        imagePullPolicy: 'IfNotPresent',
        args: ['ssl=on', 'ssl_cert_file=/tls/tls.crt', 'ssl_key_file=/tls/tls.key'].flatMap((option) => ['-c', option]),
        env: [
          { name: 'POSTGRES_PASSWORD', valueFrom: { secretKeyRef: { name, key: 'POSTGRES_PASSWORD' } } },
          { name: 'POSTGRES_DB', value: 'school' },
        ],
        readinessProbe: {
          exec: { command: ['psql', '--dbname=school', '--command=SELECT 1'] },
          periodSeconds: 1,
          timeoutSeconds: 5,
        },
        volumeMounts: [{ name: 'tls', mountPath: '/tls', readOnly: true }],
      },
    ],
    // PostgreSQL accepts a key of root only if at most its group can read it.
    volumes: [{ name: 'tls', secret: { secretName: name, defaultMode: 0o640 } }],
  },
};

/** Creates a self-signed certificate. */
async function certificateFor(host: string): Promise<{ readonly certificate: string; readonly key: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'database-certificate-'));
  try {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', 'tls.key'];
    const subject = ['-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`, '-days', '30'];
    await execa('openssl', ['req', '-x509', ...key, '-out', 'tls.crt', ...subject], { cwd: folder });
    const read = (file: string) => readFile(join(folder, file), 'utf8');
    return { certificate: await read('tls.crt'), key: await read('tls.key') };
  } finally {
    await rm(folder, { recursive: true });
  }
}
