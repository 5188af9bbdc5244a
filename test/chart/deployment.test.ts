import { describe, expect, it } from '@jest/globals';
import { readConfig } from '../../src/config.ts';
import { Helm, helmNames } from './helm.ts';
import type { Rendering } from './rendering.ts';

const deployment = (rendering: Rendering) => rendering.one('Deployment', 'demo-echoperator').spec!;
const pod = (rendering: Rendering) => deployment(rendering).template.spec!;
const container = (rendering: Rendering) => pod(rendering).containers[0]!;
const checksum = (rendering: Rendering) => deployment(rendering).template.metadata?.annotations?.['checksum/config'];

describe.each(helmNames)('the operator, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });

  it('has exactly the selector labels of the original chart', async () => {
    const spec = deployment(await render());
    const selector = { 'app.kubernetes.io/name': 'echoperator', 'app.kubernetes.io/instance': 'demo' };
    expect(spec.selector).toEqual({ matchLabels: selector });
    expect(spec.template.metadata?.labels).toMatchObject(selector);
  });

  it("runs the chart's image with the image's entry point", async () => {
    const { image, imagePullPolicy, command, args } = container(await render());
    expect({ image, imagePullPolicy, command, args }).toEqual({
      image: 'ghcr.io/echoperator/echoperator:0.1.0',
      imagePullPolicy: 'IfNotPresent',
      command: undefined,
      args: undefined,
    });
  });

  it.each([
    [{ repository: 'registry.example.com:5000/eo', tag: '1.2.3' }, 'registry.example.com:5000/eo:1.2.3'],
    [
      { tag: '1.2.3', digest: `sha256:${'0a'.repeat(32)}` },
      `ghcr.io/echoperator/echoperator@sha256:${'0a'.repeat(32)}`,
    ],
  ])('takes the image %j in every pod', async (image, expected) => {
    const specs = (await render({ image })).podSpecs();
    expect(specs.size).toBe(4);
    for (const spec of specs.values()) expect(spec.containers[0]?.image).toBe(expected);
  });

  it.each([
    ['mirror.example:5000', 'mirror.example:5000'],
    ['mirror.example/cache/', 'mirror.example/cache'],
  ])('takes every image from global.imageRegistry=%s', async (imageRegistry, expected) => {
    const rendering = await render({
      global: { imageRegistry },
      petstore: { enabled: true, tls: { enabled: false } },
      podSet: { image: 'localhost:5000/sleeper' },
    });
    const images = [...rendering.podSpecs().values()].flatMap(({ containers }) => containers.map(({ image }) => image));
    expect(new Set(images)).toEqual(
      new Set([`${expected}/echoperator/echoperator:0.1.0`, `${expected}/echoperator/petstore:0.1.0`]),
    );
    const { echoImage, podSetImage } = readConfig(rendering.one('ConfigMap').data!);
    expect([echoImage, podSetImage]).toEqual([`${expected}/busybox:1.36`, `${expected}/sleeper`]);
  });

  it('reads its settings from the ConfigMap', async () => {
    const rendering = await render();
    expect(container(rendering).envFrom).toEqual([{ configMapRef: { name: 'demo-echoperator' } }]);
    const field = (fieldPath: string) => ({ valueFrom: { fieldRef: { fieldPath } } });
    expect(container(rendering).env).toEqual([
      { name: 'HA_NODE_ID', ...field('metadata.name') },
      { name: 'POD_NAME', ...field('metadata.name') },
      { name: 'POD_UID', ...field('metadata.uid') },
      { name: 'CONTAINER_NAME', value: container(rendering).name },
    ]);
    expect(rendering.one('ConfigMap').data).toEqual({
      NAMESPACE: 'operators',
      WATCH_NAMESPACES: '',
      CONTROLLERS: 'echo,scheduledEcho',
      ENV: 'production',
      LOG_LEVEL: 'info',
      NUM_WORKERS: '4',
      RESYNC_SECONDS: '600',
      ECHO_IMAGE: 'busybox:1.36',
      ECHO_RESOURCES: '{"limits":{"memory":"64Mi"},"requests":{"cpu":"10m","memory":"16Mi"}}',
      POD_SET_IMAGE: 'busybox:1.36',
      CHILD_POD_LABELS: '{}',
      CHILD_POD_ANNOTATIONS: '{}',
      CHILD_POD_IMAGE_PULL_SECRETS: '',
      CHILD_POD_NODE_SELECTOR: '{"kubernetes.io/os":"linux"}',
      CHILD_POD_TOLERATIONS: '[]',
      CHILD_POD_AFFINITY: '{}',
      CHILD_POD_PRIORITY_CLASS_NAME: '',
      CHILD_POD_SECURITY_CONTEXT: expect.stringContaining('"runAsUser":65534'),
      CHILD_POD_CONTAINER_SECURITY_CONTEXT: expect.stringContaining('"readOnlyRootFilesystem":true'),
      BOOK_STORE_POD_SECURITY_CONTEXT: expect.stringContaining('"fsGroup":999'),
      BOOK_STORE_CONTAINER_SECURITY_CONTEXT: expect.stringContaining('"drop":["ALL"]'),
      SHUTDOWN_TIMEOUT_SECONDS: '20',
      HA_ENABLED: 'true',
      HA_WARM_STANDBY: 'false',
      HA_LEASE_LOCK_NAME: 'demo-echoperator',
      HA_LEASE_DURATION_SECONDS: '15',
      HA_RENEW_DEADLINE_SECONDS: '10',
      HA_RETRY_PERIOD_SECONDS: '2',
      METRICS_ENABLED: 'true',
      METRICS_PATH: '/metrics',
      METRICS_PORT: '2112',
      HEALTH_PORT: '8081',
      EXPLAIN_DIR: '/dev/shm',
      PSQL_HOST: '',
      PSQL_PORT: '5432',
      PSQL_DBNAME: 'postgres',
      PSQL_CREDENTIALS_DIR: '',
      PSQL_SSLMODE: 'verify-full',
      PSQL_SSLROOTCERT: '',
      PSQL_POOL_SIZE: '4',
      PSQL_TABLES: '',
      PSQL_CONNECT_TIMEOUT_SECONDS: '5',
      PSQL_STATEMENT_TIMEOUT_SECONDS: '5',
    });
  });

  it('restarts when a setting changes, and only then', async () => {
    const before = await render();
    expect(checksum(before)).toMatch(/^[0-9a-f]{64}$/);
    expect(checksum(await render({ logLevel: 'debug' }))).not.toBe(checksum(before));
    expect(checksum(await render({ echo: { image: 'mirror/busybox:1.36' } }))).not.toBe(checksum(before));
    expect(checksum(await render({ serviceAccount: { annotations: { a: 'b' } } }))).toBe(checksum(before));
    const { labels } = deployment(before).template.metadata!;
    expect(labels).not.toHaveProperty(['helm.sh/chart']);
  });

  it('gets time to finish its reconciles', async () => {
    const rendering = await render({ shutdownTimeoutSeconds: 54, terminationGracePeriodSeconds: 60 });
    expect(pod(rendering).terminationGracePeriodSeconds).toBe(60);
    expect(rendering.one('ConfigMap').data?.SHUTDOWN_TIMEOUT_SECONDS).toBe('54');
  });

  it('is probed on the health port', async () => {
    const { ports, livenessProbe, readinessProbe } = container(
      await render({ health: { port: 9000 }, livenessProbe: { periodSeconds: 7 }, monitoring: { enabled: false } }),
    );
    expect(ports).toEqual([{ name: 'health', containerPort: 9000 }]);
    expect(livenessProbe).toEqual({
      httpGet: { path: '/healthz', port: 'health' },
      initialDelaySeconds: 0,
      periodSeconds: 7,
      timeoutSeconds: 5,
      failureThreshold: 3,
    });
    expect(readinessProbe?.httpGet).toEqual({ path: '/readyz', port: 'health' });
  });

  it('gets additional environment variables, which override those of the chart', async () => {
    const extraEnv = [
      { name: 'HA_NODE_ID', value: 'me' },
      { name: 'TOKEN', valueFrom: { secretKeyRef: { name: 'token', key: 'token' } } },
    ];
    const env = container(await render({ extraEnv })).env ?? [];
    expect(env.map(({ name: variable }) => variable)).toEqual([
      'POD_NAME',
      'POD_UID',
      'CONTAINER_NAME',
      'HA_NODE_ID',
      'TOKEN',
    ]);
    expect(env.slice(-2)).toEqual(extraEnv);
  });

  it('is scheduled as the values say', async () => {
    const constraint = { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway' };
    const values = {
      imagePullSecrets: [{ name: 'registry' }],
      priorityClassName: 'system-cluster-critical',
      nodeSelector: { disk: 'ssd' },
      tolerations: [{ key: 'dedicated', operator: 'Exists', effect: 'NoSchedule' }],
    };
    const affinity = { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } };
    const rendering = await render({ ...values, affinity, topologySpreadConstraints: [constraint] });
    for (const spec of rendering.podSpecs().values()) expect(spec).toMatchObject(values);
    expect(pod(rendering)).toMatchObject({ affinity });
    const { selector } = deployment(rendering);
    expect(pod(rendering).topologySpreadConstraints).toEqual([{ ...constraint, labelSelector: selector }]);
  });

  it('schedules the pods that it creates as the values say, with the pull secrets of the chart', async () => {
    const childPods = {
      labels: { 'sidecar.istio.io/inject': 'false' },
      annotations: { note: 'a' },
      nodeSelector: { disk: 'ssd' },
      tolerations: [{ key: 'dedicated', operator: 'Exists', effect: 'NoSchedule' }],
      affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
      priorityClassName: 'low',
    };
    const imagePullSecrets = [{ name: 'registry' }, { name: 'mirror' }];
    const { childPod } = readConfig((await render({ childPods, imagePullSecrets })).one('ConfigMap').data!);
    expect(childPod).toMatchObject({ ...childPods, imagePullSecrets: ['registry', 'mirror'] });
  });

  it.each([
    [{}, { requests: { cpu: '10m', memory: '16Mi' }, limits: { memory: '64Mi' } }],
    [
      { resources: { limits: { cpu: 1 }, requests: { memory: null } } },
      { requests: { cpu: '10m' }, limits: { cpu: 1, memory: '64Mi' } },
    ],
    // As after an upgrade of an older chart's release with --reuse-values.
    [{ resources: null }, { requests: { cpu: '10m', memory: '16Mi' }, limits: { memory: '64Mi' } }],
  ])('gives the pods that print the resources of %j', async (echo, expected) => {
    const { echoResources } = readConfig((await render({ echo })).one('ConfigMap').data!);
    expect(echoResources).toEqual(expected);
  });

  it('omits empty fields', async () => {
    for (const spec of (await render()).podSpecs().values()) {
      for (const field of ['imagePullSecrets', 'priorityClassName', 'tolerations', 'affinity']) {
        expect(spec).not.toHaveProperty(field);
      }
    }
  });

  it("adds the user's labels and annotations to its pods, but keeps those that the chart needs", async () => {
    const rendering = await render({
      podLabels: { team: 'platform', 'app.kubernetes.io/name': 'stolen' },
      podAnnotations: { note: 'hello', 'checksum/config': 'stolen' },
    });
    const { labels, annotations } = deployment(rendering).template.metadata!;
    expect(labels).toMatchObject({ team: 'platform', 'app.kubernetes.io/name': 'echoperator' });
    expect(annotations).toMatchObject({ note: 'hello' });
    expect(annotations?.['checksum/config']).not.toBe('stolen');
    for (const { spec } of rendering.all('Job')) {
      expect(spec?.template.metadata).toMatchObject({ annotations: { note: 'hello' }, labels: { team: 'platform' } });
    }
  });

  it('has a Service for health that includes pods which are not ready', async () => {
    const service = (await render()).one('Service', 'demo-echoperator-health').spec!;
    expect(service.publishNotReadyAddresses).toBe(true);
    expect(service.ports).toEqual([{ name: 'health', port: 8081, targetPort: 'health' }]);
    expect(service.selector).toEqual(deployment(await render()).selector.matchLabels);
  });
});

describe('names', () => {
  const render = async (release: string, values: object = {}) => (await Helm.find('helm')).render({ values, release });

  it.each([
    ['echoperator', {}, 'echoperator'],
    ['my-echoperator', {}, 'my-echoperator'],
    ['demo', {}, 'demo-echoperator'],
    ['demo', { nameOverride: 'voice' }, 'demo-voice'],
    ['demo', { fullnameOverride: 'voice' }, 'voice'],
    ['v1.2', {}, 'v1-2-echoperator'],
  ])('of release %s with %j start with %s', async (release, values, expected) => {
    expect((await render(release, values)).one('Deployment').metadata?.name).toBe(expected);
  });

  it('fit into labels and Services and stay distinct for a long release name', async () => {
    const rendering = await render('r'.repeat(53), { networkPolicy: { enabled: true } });
    const names = rendering.names();
    expect(new Set(names).size).toBe(names.length);
    for (const { metadata } of rendering.manifests) {
      const [own = '', ...outside] = (metadata?.name ?? '').split('.');
      expect(own).toMatch(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
      expect(outside).toEqual(metadata?.namespace === 'operators' ? [] : ['operators']);
      for (const value of Object.values(metadata?.labels ?? {})) expect(value.length).toBeLessThanOrEqual(63);
    }
    const longest = await render('demo', { fullnameOverride: 'n'.repeat(63) });
    expect(longest.all('Service').map(({ metadata }) => metadata?.name)).toEqual([
      `${'n'.repeat(56)}-health`,
      `${'n'.repeat(55)}-metrics`,
    ]);
  });

  it('that look like numbers or null stay texts', async () => {
    const rendering = await (await Helm.find('helm')).render({
      namespace: '2024',
      values: {
        fullnameOverride: '8',
        nameOverride: '9',
        watchNamespaces: ['1'],
        serviceAccount: { name: '5' },
        priorityClassName: '1e3',
        controllers: { pet: { enabled: true }, postgresWriter: { enabled: true } },
        petstore: {
          enabled: true,
          service: { name: 'null' },
          storage: { storageClassName: '007' },
          tls: { existingSecret: '123' },
        },
        postgresWriter: {
          host: 'db',
          credentials: { existingSecret: '1', userKey: '2', passwordKey: 'true' },
          tls: { existingSecret: '3', caKey: '4' },
        },
        metrics: {
          serviceMonitor: { enabled: true, namespace: '12' },
          podMonitor: { enabled: true, namespace: '13' },
          prometheusRule: { enabled: true, namespace: '14' },
          dashboards: { enabled: true, namespace: '15' },
        },
        networkPolicy: { enabled: true },
      },
    });
    const names = /^(.*[nN]ame|names(pace)?|matchNames|resourceNames|key|app\.kubernetes\.io\/name)$/;
    const isName = (value: unknown): boolean =>
      Array.isArray(value)
        ? value.every(isName)
        : typeof value === 'string' || (typeof value === 'object' && value !== null);
    const wrong: string[] = [];
    JSON.stringify(rendering.manifests, (key, value) => {
      if (names.test(key) && !isName(value)) wrong.push(`${key}: ${value}`);
      return value;
    });
    expect(wrong).toEqual([]);
    expect(rendering.one('Service', 'null').metadata?.namespace).toBe('2024');
  });
});

describe('releases with the same name in two namespaces', () => {
  it.each([
    ['all namespaces', {}],
    ['some namespaces', { watchNamespaces: ['team-a'] }],
  ])('that watch %s have no object in common', async (_, scope) => {
    const values = { ...scope, networkPolicy: { enabled: true }, monitoring: { serviceMonitor: 'always' } };
    const helm = await Helm.find('helm');
    const [one, other] = await Promise.all(
      ['one', 'other'].map(async (namespace) => {
        const { manifests } = await helm.render({ values, namespace });
        return manifests.map(({ kind, metadata }) => `${kind} ${metadata?.namespace ?? ''}/${metadata?.name}`);
      }),
    );
    expect(one!.filter((object) => other!.includes(object))).toEqual([]);
  });
});

describe('labels', () => {
  it('are the recommended ones on every object', async () => {
    const values = {
      networkPolicy: { enabled: true },
      monitoring: { serviceMonitor: 'always' },
      watchNamespaces: ['team-a'],
    };
    const { manifests } = await (await Helm.find('helm')).render({ values });
    for (const { metadata } of manifests) {
      expect(metadata?.labels).toMatchObject({
        'app.kubernetes.io/instance': 'demo',
        'app.kubernetes.io/version': '0.1.0',
        'app.kubernetes.io/part-of': 'echoperator',
        'app.kubernetes.io/component': expect.any(String),
        'app.kubernetes.io/managed-by': 'Helm',
        'app.kubernetes.io/name': expect.stringMatching(/^echoperator/),
      });
    }
  });

  it('give no other pod the selector labels of the operator', async () => {
    const rendering = await (await Helm.find('helm')).render();
    const selected = Object.entries(deployment(rendering).selector.matchLabels!);
    const others = [rendering.one('Pod').metadata, ...rendering.all('Job').map(({ spec }) => spec?.template.metadata)];
    for (const metadata of others) {
      expect(selected.every(([key, value]) => metadata?.labels?.[key] === value)).toBe(false);
    }
  });
});
