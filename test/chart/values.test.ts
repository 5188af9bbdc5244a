import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { controllerNames, reservedSettingsLabels } from '../../src/kinds.ts';
import { chart, Helm, HelmError, helmNames } from './helm.ts';

const originalValues = join(import.meta.dirname, '../../examples/values/original.yaml');

const leaderElection = (times: object) => ({ ha: { leaderElection: times } });

/** Values that the chart must reject, and the names that the message must contain. */
const rejected: readonly (readonly [what: string, values: object, names: readonly string[]])[] = [
  ['a misspelt key', { numWorker: 4 }, ['numWorker']],
  ['a misspelt key in a group', { image: { tga: '1' } }, ['image', 'tga']],
  [
    'a misspelt key two groups down',
    { ha: { leaderElection: { leaseDuration: 15 } } },
    ['leaderElection', 'leaseDuration'],
  ],
  [
    'a misspelt key of a securityContext',
    { securityContext: { runAsNonroot: true } },
    ['securityContext', 'runAsNonroot'],
  ],
  ['a misspelt key of a toleration', { tolerations: [{ kee: 'a' }] }, ['tolerations', 'kee']],
  ['a misspelt key of an affinity', { affinity: { podAfinity: {} } }, ['affinity', 'podAfinity']],
  ['a misspelt key of a resource list', { resources: { limit: {} } }, ['resources', 'limit']],
  ['a string for a number', { numWorkers: 'four' }, ['numWorkers']],
  ['a number for a string', { image: { tag: 1.5 } }, ['image', 'tag']],
  ['a string for a boolean', { monitoring: { enabled: 'yes please' } }, ['monitoring', 'enabled']],
  ['no workers', { numWorkers: 0 }, ['numWorkers']],
  ['more workers than the operator takes', { numWorkers: 1001 }, ['numWorkers']],
  ['a fraction of a second', { shutdownTimeoutSeconds: 0.5 }, ['shutdownTimeoutSeconds']],
  ['a port that is too large', { monitoring: { port: 65_536 } }, ['monitoring', 'port']],
  ['a registry with a space', { global: { imageRegistry: 'mirror example' } }, ['global', 'imageRegistry']],
  [
    "a misspelt key of the operator's pods",
    { childPods: { podSecurityContext: { runAsNonroot: true } } },
    ['childPods', 'runAsNonroot'],
  ],
  [
    'a misspelt key of the resources of pods that print',
    { echo: { resources: { limit: {} } } },
    ['resources', 'limit'],
  ],
  ['an unknown log level', { logLevel: 'verbose' }, ['logLevel']],
  ['an unknown pull policy', { image: { pullPolicy: 'Sometimes' } }, ['pullPolicy']],
  ['an invalid digest', { image: { digest: 'latest' } }, ['digest']],
  ['an invalid path', { monitoring: { path: 'metrics' } }, ['monitoring', 'path']],
  ['an interval without a unit', { monitoring: { interval: '10' } }, ['monitoring', 'interval']],
  ['an invalid name', { fullnameOverride: 'Echo_Operator' }, ['fullnameOverride']],
  ['a variable without a name', { extraEnv: [{ value: 'a' }] }, ['extraEnv', 'name']],
  ['a variable that is not a string', { extraEnv: [{ name: 'A', value: 1 }] }, ['extraEnv', 'value']],
  ['a pull secret as a string', { imagePullSecrets: ['registry'] }, ['imagePullSecrets']],
  ['a label that is not a string', { podLabels: { tier: 1 } }, ['podLabels', 'tier']],
  ['no replicas', { ha: { replicaCount: 0 } }, ['ha', 'replicaCount']],
  ['no pause between attempts', leaderElection({ retryPeriodSeconds: 0 }), ['leaderElection', 'retryPeriodSeconds']],
  [
    'a Lease duration with a fraction of a second',
    leaderElection({ leaseDurationSeconds: 15.5 }),
    ['leaseDurationSeconds'],
  ],
  ['a warmStandby that is not a boolean', { ha: { warmStandby: 'warm' } }, ['ha', 'warmStandby']],
  ['a required value set to null', { ha: { enabled: null } }, ['ha', 'enabled']],
  ['a namespace as a string', { watchNamespaces: 'team-a' }, ['watchNamespaces']],
  ['an invalid namespace', { watchNamespaces: ['Team_A'] }, ['watchNamespaces']],
  ['two namespaces in one string', { watchNamespaces: ['team-a,team-b'] }, ['watchNamespaces']],
  ['a duplicate namespace', { watchNamespaces: ['team-a', 'team-a'] }, ['watchNamespaces']],
  ['a table without a schema', { postgresWriter: { tables: ['students'] } }, ['postgresWriter', 'tables']],
  ['an unknown TLS mode', { postgresWriter: { tls: { mode: 'prefer' } } }, ['postgresWriter', 'mode']],
  ['a password among the values', { postgresWriter: { credentials: { password: 'x' } } }, ['credentials', 'password']],
  ['a misspelt key of a monitor', { metrics: { podMonitor: { intervall: '1s' } } }, ['podMonitor', 'intervall']],
  ['an unknown serviceMonitor mode', { monitoring: { serviceMonitor: true } }, ['serviceMonitor']],
];

describe.each(helmNames)('values, by %s', (name) => {
  const render = async (values: object) => (await Helm.find(name)).render({ values });
  const refusal = async (values: object): Promise<string> => {
    const outcome = await render(values).catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(HelmError);
    return (outcome as HelmError).message;
  };

  it.each(rejected)('rejects %s and names it', async (_, values, names) => {
    const said = await refusal(values);
    for (const named of names) expect(said).toContain(named);
  });

  it.each([
    [{ terminationGracePeriodSeconds: 20 }, 'terminationGracePeriodSeconds (20)', 'shutdownTimeoutSeconds (20)'],
    [{ shutdownTimeoutSeconds: 25 }, 'terminationGracePeriodSeconds (30)', 'shutdownTimeoutSeconds (25)'],
    [
      { controllers: Object.fromEntries(controllerNames.map((each) => [each, { enabled: false }])) },
      'controllers',
      'enable at least one controller',
    ],
    [
      { controllers: { postgresWriter: { enabled: true } } },
      'controllers.postgresWriter.enabled',
      'postgresWriter.host',
    ],
    [
      { controllers: { postgresWriter: { enabled: true } }, postgresWriter: { host: 'db' } },
      'controllers.postgresWriter.enabled',
      'postgresWriter.credentials.existingSecret',
    ],
    [{ crds: { keep: false }, uninstallCheck: { enabled: false } }, 'crds.keep', 'uninstallCheck.enabled'],
    [{ shutdownTimeoutSeconds: 45 }, 'terminationGracePeriodSeconds (30)', 'shutdownTimeoutSeconds (45)'],
    [{ health: { port: 2112 } }, 'monitoring.port (2112)', 'health.port (2112)'],
    [
      { podDisruptionBudget: { maxUnavailable: '' } },
      'podDisruptionBudget.maxUnavailable',
      'podDisruptionBudget.minAvailable',
    ],
    [
      leaderElection({ leaseDurationSeconds: 10 }),
      'ha.leaderElection.leaseDurationSeconds (10)',
      'ha.leaderElection.renewDeadlineSeconds (10)',
    ],
    // This also applies without high availability, because the single replica holds the Lease.
    [
      { ha: { enabled: false, leaderElection: { renewDeadlineSeconds: 16 } } },
      'ha.leaderElection.leaseDurationSeconds (15)',
      'ha.leaderElection.renewDeadlineSeconds (16)',
    ],
    [
      leaderElection({ renewDeadlineSeconds: 6, retryPeriodSeconds: 5 }),
      'ha.leaderElection.renewDeadlineSeconds (6)',
      '1.2 times ha.leaderElection.retryPeriodSeconds (5)',
    ],
  ])('rejects %j, which contradicts another value, and names both', async (values, ...both) => {
    const said = await refusal(values);
    for (const named of both) expect(said).toContain(named);
  });

  it.each([
    ['HA_LEASE_LOCK_NAME', "Set fullnameOverride to the old Lease's name, or scale the Deployment to 0 first"],
    ['NAMESPACE', 'Scale the Deployment to 0 first'],
  ])('rejects the variable %s, which moves the Lease, and says how to remove it', async (name, remedy) => {
    const said = await refusal({ extraEnv: [{ name, value: 'mine' }] });
    expect(said).toContain(`extraEnv has ${name}`);
    expect(said).toContain(remedy);
  });

  it('rejects each label by which pods are found among those of the pods of the objects', async () => {
    for (const label of reservedSettingsLabels) {
      const said = await refusal({ childPods: { labels: { team: 'a', [label]: 'stolen' } } });
      expect(said).toContain(`childPods.labels has ${label}=stolen`);
    }
    await render({ childPods: { labels: { team: 'a' } } });
  });

  it.each([
    [{ image: { repository: 'mmontes11/echoperator' } }, 'image.repository is "mmontes11/echoperator"'],
    [{ image: { repository: 'mirror.example.com/hub/mmontes11/echoperator' } }, 'mmontes11/echoperator"'],
    [{ image: { tag: 'v0.0.1' } }, 'image.tag is "v0.0.1"'],
  ])(
    'rejects %j of a values file for the original chart, whose image has no command of the Jobs',
    async (values, words) => {
      const said = await refusal(values);
      expect(said).toContain(words);
      expect(said).toContain('remove image.repository and image.tag');
    },
  );

  it.each([
    [{ repository: 'mirror.example.com/not-mmontes11/echoperator' }],
    [{ repository: 'mirror.example.com/own', tag: 'v1' }],
  ])('accepts another image %j', async (image) => {
    expect((await render({ image })).all('Deployment')).toHaveLength(1);
  });

  it('accepts the smallest valid times of leader election', async () => {
    const times = { leaseDurationSeconds: 8, renewDeadlineSeconds: 7, retryPeriodSeconds: 5 };
    expect((await render(leaderElection(times))).one('ConfigMap').data).toMatchObject({
      HA_LEASE_DURATION_SECONDS: '8',
      HA_RENEW_DEADLINE_SECONDS: '7',
      HA_RETRY_PERIOD_SECONDS: '5',
    });
  });

  it('accepts equal ports if only one of the servers runs', async () => {
    const rendering = await render({ health: { port: 2112 }, monitoring: { enabled: false } });
    expect(rendering.one('ConfigMap').data?.HEALTH_PORT).toBe('2112');
  });

  it.each([
    [{ controllers: null, crds: { upgradeJob: null }, rbac: { aggregate: null } }],
    [{ serviceAccount: { annotations: null }, metrics: { serviceMonitor: null, podMonitor: null } }],
    [{ networkPolicy: { apiServer: null, metrics: null }, podDisruptionBudget: null }],
  ])('takes null in %j for the default', async (values) => {
    expect((await render(values)).manifests).toEqual((await render({})).manifests);
  });

  it("takes null for the default of the pet store's groups", async () => {
    const petstore = { enabled: true, tls: { enabled: false } };
    const nulls = { networkPolicy: null, image: null, service: null, storage: null };
    expect((await render({ petstore: { ...petstore, ...nulls } })).manifests).toEqual(
      (await render({ petstore })).manifests,
    );
  });

  it('accepts the values of a parent chart', async () => {
    const { manifests } = await render({ global: { imageRegistry: 'example.com' }, enabled: true });
    expect(manifests.length).toBeGreaterThan(0);
  });

  it("accepts the original chart's values file unchanged", async () => {
    const rendering = await (await Helm.find(name)).render({
      valuesFiles: [originalValues],
      apiVersions: ['monitoring.coreos.com/v1/ServiceMonitor'],
    });
    expect(rendering.one('ConfigMap', 'echoes').data).toMatchObject({
      NAMESPACE: 'operators',
      NUM_WORKERS: '8',
      HA_ENABLED: 'true',
      HA_LEASE_LOCK_NAME: 'echoes',
      HA_LEASE_DURATION_SECONDS: '30',
      HA_RENEW_DEADLINE_SECONDS: '20',
      HA_RETRY_PERIOD_SECONDS: '4',
      METRICS_ENABLED: 'true',
      METRICS_PATH: '/prometheus',
      METRICS_PORT: '9090',
      ENV: 'staging',
      LOG_LEVEL: 'debug',
    });
    const { replicas, template } = rendering.one('Deployment', 'echoes').spec!;
    expect(replicas).toBe(5);
    expect(template.spec).toMatchObject({
      nodeSelector: { 'kubernetes.io/arch': 'amd64' },
      containers: [{ image: 'registry.example.com/mirror/echoperator:0.1.0', imagePullPolicy: 'Always' }],
    });
    expect(rendering.one('ServiceMonitor', 'echoes.operators')).toMatchObject({
      metadata: { namespace: 'observability', labels: { release: 'prometheus', team: 'platform' } },
      spec: { endpoints: [{ port: 'metrics', path: '/prometheus', interval: '1m30s' }] },
    });
  });

  it('has the keys and defaults of the original chart, except for the image and the namespace of the ServiceMonitors', async () => {
    const values = parse(await readFile(join(chart, 'values.yaml'), 'utf8'));
    expect(values).toMatchObject({
      nameOverride: '',
      fullnameOverride: '',
      image: { pullPolicy: 'IfNotPresent' },
      env: 'production',
      logLevel: 'info',
      numWorkers: 4,
      ha: {
        enabled: true,
        leaderElection: { leaseDurationSeconds: 15, renewDeadlineSeconds: 10, retryPeriodSeconds: 2 },
        replicaCount: 3,
      },
      monitoring: {
        enabled: true,
        path: '/metrics',
        port: 2112,
        interval: '10s',
        labels: { release: 'monitoring' },
      },
      nodeSelector: {},
    });
  });
});

describe.each(helmNames)("the cluster's version, by %s", (name) => {
  const render = async (kubeVersion: string) => (await Helm.find(name)).render({ kubeVersion });

  it.each(['v1.30.0', 'v1.36.3', 'v1.36.3-gke.1', 'v1.33.1+k3s1', 'v1.31.2-eks-7f9249a'])(
    '%s is taken',
    async (version) => {
      expect((await render(version)).all('Deployment')).toHaveLength(1);
    },
  );

  it.each(['v1.29.15', 'v1.29.9-gke.200'])('rejects %s', async (version) => {
    await expect(render(version)).rejects.toThrow('>=1.30.0-0');
  });
});
