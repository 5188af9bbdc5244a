import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { chart, Helm, helmNames } from './helm.ts';

const on = { controllers: { pet: { enabled: true } }, petstore: { enabled: true } };
const selector = { 'app.kubernetes.io/name': 'echoperator-petstore', 'app.kubernetes.io/instance': 'demo' };

describe.each(helmNames)('the pet store, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });

  it('is not there unless asked for, nor is a word of it in the settings', async () => {
    const rendering = await render();
    expect(rendering.all('StatefulSet')).toEqual([]);
    expect(rendering.names().filter((each) => each.includes('petstore'))).toEqual([]);
    expect(Object.keys(rendering.one('ConfigMap').data ?? {}).filter((key) => key.startsWith('PETSTORE'))).toEqual([]);
  });

  it('is one pod with a claim, reached by its Service, which the operator is told', async () => {
    const rendering = await render(on);
    const { spec } = rendering.one('StatefulSet', 'demo-echoperator-petstore');
    expect(spec).toMatchObject({
      replicas: 1,
      serviceName: 'petstore-service',
      selector: { matchLabels: selector },
      template: { metadata: { labels: selector } },
      volumeClaimTemplates: [
        {
          metadata: { name: 'data' },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
        },
      ],
    });
    const [container] = spec!.template.spec!.containers;
    expect(container).toMatchObject({
      image: expect.stringMatching(/^ghcr\.io\/echoperator\/petstore:\d/),
      resources: { limits: { memory: '256Mi' } },
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
    });
    expect(container?.env).toContainEqual({ name: 'PETSTORE_DATABASE', value: '/data/petstore.db' });
    const service = rendering.one('Service', 'petstore-service');
    expect(service.spec).toMatchObject({ selector, ports: [{ port: 6742, targetPort: 'grpc' }, { port: 8080 }] });
    expect(service.metadata?.namespace).toBe('operators');
    const { data } = rendering.one('ConfigMap');
    expect(data).toMatchObject({
      CONTROLLERS: 'bookStore,echo,pet,podSet,scheduledEcho',
      PETSTORE_ADDRESS: 'petstore-service.operators.svc:6742',
      PETSTORE_TLS: 'false',
      PETSTORE_TIMEOUT_SECONDS: '10',
    });
  });

  it('has a volume that belongs to its user, and all that the Pod Security Standard `restricted` asks for', async () => {
    const rendering = await render({ ...on, podSecurityContext: { fsGroup: 1 } });
    const pod = rendering.one('StatefulSet').spec!.template.spec!;
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 65532, fsGroup: 1 });
    expect((await render(on)).one('StatefulSet').spec!.template.spec!.securityContext).toMatchObject({
      fsGroup: 65532,
    });
    expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(pod.containers[0]?.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  });

  it('is looked for elsewhere where there is another', async () => {
    const elsewhere = { pet: { address: 'pets.example:443', tls: { enabled: true, caSecret: 'pets-ca' } } };
    const rendering = await render({ controllers: on.controllers, ...elsewhere });
    expect(rendering.one('ConfigMap').data).toMatchObject({
      PETSTORE_ADDRESS: 'pets.example:443',
      PETSTORE_TLS: 'true',
      PETSTORE_CA_FILE: '/etc/echoperator/petstore/ca.crt',
    });
    const pod = rendering.one('Deployment').spec!.template.spec!;
    expect(pod.volumes).toMatchObject([{ name: 'petstore', secret: { secretName: 'pets-ca' } }]);
    expect(pod.containers[0]?.volumeMounts).toMatchObject([
      { name: 'petstore', mountPath: '/etc/echoperator/petstore' },
    ]);
    const original = await render({ controllers: on.controllers });
    expect(original.one('ConfigMap').data?.PETSTORE_ADDRESS).toBe('petstore-service.petstore.svc.cluster.local:6742');
    expect(original.one('Deployment').spec!.template.spec!.volumes).toBeUndefined();
  });

  it('can be called otherwise, speak TLS, and have another volume', async () => {
    const rendering = await render({
      ...on,
      petstore: {
        enabled: true,
        service: { name: 'pets', port: 443 },
        storage: { size: '5Gi', storageClassName: 'fast' },
        tls: { secretName: 'pets-tls' },
        image: { digest: `sha256:${'a'.repeat(64)}` },
      },
    });
    const { spec } = rendering.one('StatefulSet');
    expect(spec?.volumeClaimTemplates?.[0]?.spec).toMatchObject({
      storageClassName: 'fast',
      resources: { requests: { storage: '5Gi' } },
    });
    const pod = spec!.template.spec!;
    expect(pod.volumes).toEqual([{ name: 'tls', secret: { secretName: 'pets-tls' } }]);
    expect(pod.containers[0]?.image).toBe(`ghcr.io/echoperator/petstore@sha256:${'a'.repeat(64)}`);
    expect(pod.containers[0]?.env).toContainEqual({ name: 'PETSTORE_TLS_KEY_FILE', value: '/etc/petstore/tls.key' });
    expect(rendering.one('Service', 'pets').spec?.ports?.[0]).toMatchObject({ port: 443, targetPort: 'grpc' });
    expect(rendering.one('ConfigMap').data?.PETSTORE_ADDRESS).toBe('pets.operators.svc:443');
  });

  it('is let through by the network policies', async () => {
    const rendering = await render({ ...on, networkPolicy: { enabled: true } });
    expect(rendering.one('NetworkPolicy', 'demo-echoperator').spec?.egress).toContainEqual({
      ports: [
        { protocol: 'TCP', port: 6742 },
        { protocol: 'UDP', port: 53 },
        { protocol: 'TCP', port: 53 },
      ],
    });
    expect(rendering.one('NetworkPolicy', 'demo-echoperator-petstore').spec).toMatchObject({
      podSelector: { matchLabels: selector },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ ports: [{ port: 'grpc' }] }, { ports: [{ port: 'http' }] }],
    });
    const scraper = { podSelector: { matchLabels: { app: 'prometheus' } } };
    const narrow = await render({ ...on, networkPolicy: { enabled: true, metrics: { from: [scraper] } } });
    expect(narrow.one('NetworkPolicy', 'demo-echoperator-petstore').spec?.ingress).toMatchObject([
      { ports: [{ port: 'grpc' }] },
      { ports: [{ port: 'http' }], from: [scraper] },
    ]);
  });

  it.each([
    ['an address without a port', { pet: { address: 'petstore' } }, 'address'],
    ['a service name that is none', { petstore: { service: { name: '-' } } }, 'name'],
    ['a size that is none', { petstore: { storage: { size: 'much' } } }, 'size'],
    ['a misspelt value', { petstore: { enable: true } }, 'enable'],
  ])('%s is refused', async (_, values, named) => {
    await expect(render(values)).rejects.toThrow(named);
  });
});

describe('the manifests of the pet store alone', () => {
  it("are those of the chart's, but for their names", async () => {
    const text = await readFile(join(chart, '../../examples/pet-store.yaml'), 'utf8');
    const [, service, set] = parseAllDocuments(text).map((document) => document.toJS());
    const rendering = await (await Helm.find('helm')).render({ values: on });
    const own = rendering.one('StatefulSet').spec!.template.spec!.containers[0]!;
    const [container] = set.spec.template.spec.containers;
    expect(
      `${service.metadata.name}.${service.metadata.namespace}.svc.cluster.local:${service.spec.ports[0].port}`,
    ).toBe('petstore-service.petstore.svc.cluster.local:6742');
    for (const field of [
      'image',
      'resources',
      'securityContext',
      'livenessProbe',
      'readinessProbe',
      'ports',
    ] as const) {
      expect(container[field]).toEqual(own[field]);
    }
  });
});
