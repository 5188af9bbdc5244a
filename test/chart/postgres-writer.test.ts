import { describe, expect, it } from '@jest/globals';
import { Helm, helmNames } from './helm.ts';

const on = (postgresWriter: object = {}) => ({
  controllers: { postgresWriter: { enabled: true } },
  postgresWriter: { host: 'db.example', credentials: { existingSecret: 'writer' }, ...postgresWriter },
});

describe.each(helmNames)('the controller of PostgresWriters, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });

  it('is off by default: nothing is mounted, and the operator may only write the status', async () => {
    const rendering = await render();
    expect(rendering.one('ConfigMap').data?.CONTROLLERS).not.toContain('postgresWriter');
    expect(rendering.one('Deployment').spec?.template.spec).not.toHaveProperty('volumes');
    expect(rendering.one('ConfigMap').data).toMatchObject({
      PSQL_HOST: '',
      PSQL_CREDENTIALS_DIR: '',
      PSQL_SSLROOTCERT: '',
    });
  });

  it("gets the database's address, and the role from a mounted Secret", async () => {
    const rendering = await render(on());
    const { data } = rendering.one('ConfigMap');
    expect(data?.CONTROLLERS).toContain('postgresWriter');
    expect(data).toMatchObject({
      PSQL_HOST: 'db.example',
      PSQL_PORT: '5432',
      PSQL_DBNAME: 'postgres',
      PSQL_SSLMODE: 'verify-full',
      PSQL_CREDENTIALS_DIR: '/etc/echoperator/postgres',
      PSQL_SSLROOTCERT: '',
    });
    const pod = rendering.one('Deployment').spec?.template.spec;
    const items = [
      { key: 'PSQL_USER', path: 'PSQL_USER' },
      { key: 'PSQL_PASSWORD', path: 'PSQL_PASSWORD' },
    ];
    expect(pod?.volumes).toEqual([
      { name: 'postgres', projected: { sources: [{ secret: { name: 'writer', items } }] } },
    ]);
    expect(pod?.containers[0]?.volumeMounts).toEqual([
      { name: 'postgres', mountPath: '/etc/echoperator/postgres', readOnly: true },
    ]);
  });

  it('gets the permitted tables, even if their names are quoted', async () => {
    const rendering = await render(on({ tables: ['public.students', 'school."year.2026, ""new"""'] }));
    expect(rendering.one('ConfigMap').data?.PSQL_TABLES).toBe('public.students,school."year.2026, ""new"""');
  });

  it("takes other keys of the Secret, and a CA's certificate", async () => {
    const rendering = await render(
      on({
        credentials: { existingSecret: 'writer', userKey: 'username', passwordKey: 'password' },
        tls: { existingSecret: 'db-ca', caKey: 'tls.crt' },
      }),
    );
    expect(rendering.one('ConfigMap').data?.PSQL_SSLROOTCERT).toBe('/etc/echoperator/postgres/ca.crt');
    const [volume] = rendering.one('Deployment').spec?.template.spec?.volumes ?? [];
    expect(volume?.projected?.sources).toEqual([
      {
        secret: {
          name: 'writer',
          items: [
            { key: 'username', path: 'PSQL_USER' },
            { key: 'password', path: 'PSQL_PASSWORD' },
          ],
        },
      },
      { secret: { name: 'db-ca', items: [{ key: 'tls.crt', path: 'ca.crt' }] } },
    ]);
  });

  it('may add and remove its finalizer', async () => {
    const rules = (await render(on())).one('ClusterRole', 'demo-echoperator.operators').rules;
    expect(rules?.filter(({ apiGroups }) => apiGroups?.includes('demo.yash.com'))).toEqual([
      { apiGroups: ['demo.yash.com'], resources: ['postgreswriters'], verbs: ['get', 'list', 'watch', 'patch'] },
      { apiGroups: ['demo.yash.com'], resources: ['postgreswriters/status'], verbs: ['patch'] },
    ]);
  });

  it('may reach the database if there are network policies', async () => {
    const rendering = await render({ ...on({ port: 6432 }), networkPolicy: { enabled: true } });
    const ports = [
      { protocol: 'TCP', port: 6432 },
      { protocol: 'UDP', port: 53 },
      { protocol: 'TCP', port: 53 },
    ];
    expect(rendering.one('NetworkPolicy', 'demo-echoperator').spec?.egress).toContainEqual({ ports });
  });

  it('also takes the role from the environment', async () => {
    const extraEnv = [{ name: 'PSQL_USER', value: 'writer' }];
    const rendering = await render({ ...on({ credentials: { existingSecret: '' } }), extraEnv });
    expect(rendering.one('Deployment').spec?.template.spec).not.toHaveProperty('volumes');
  });
});
