import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { chart, Helm, helmNames } from './helm.ts';

const on = { controllers: { pet: { enabled: true } }, petstore: { enabled: true, tls: { enabled: false } } };
const nameOf = ({ metadata }: { readonly metadata?: { readonly name?: string } }) => metadata?.name;
const selector = { 'app.kubernetes.io/name': 'echoperator-petstore', 'app.kubernetes.io/instance': 'demo' };

describe.each(helmNames)('the pet store, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });

  it('is off by default, and the settings do not mention it', async () => {
    const rendering = await render();
    expect(rendering.all('StatefulSet')).toEqual([]);
    expect(rendering.names().filter((each) => each.includes('petstore'))).toEqual([]);
    expect(Object.keys(rendering.one('ConfigMap').data ?? {}).filter((key) => key.startsWith('PETSTORE'))).toEqual([]);
  });

  it('is one pod with a volume claim and a Service, whose address the operator gets', async () => {
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
    // All addresses: on a cluster with IPv6 alone, pods have no IPv4.
    expect(container?.env).toContainEqual({ name: 'PETSTORE_LISTEN', value: ':6742' });
    const service = rendering.one('Service', 'petstore-service');
    expect(service.spec).toMatchObject({ selector, ports: [{ port: 6742, targetPort: 'grpc' }, { port: 8080 }] });
    expect(service.metadata?.namespace).toBe('operators');
    const { data } = rendering.one('ConfigMap');
    expect(data).toMatchObject({
      CONTROLLERS: 'echo,pet,scheduledEcho',
      PETSTORE_ADDRESS: 'petstore-service.operators.svc:6742',
      PETSTORE_TLS: 'false',
      PETSTORE_TIMEOUT_SECONDS: '10',
    });
  });

  it('has a StatefulSet whose name leaves room for the hash in a label of its pods', async () => {
    const nameIn = async (release: string) =>
      (await (await Helm.find(name)).render({ values: on, release })).one('StatefulSet').metadata?.name ?? '';
    const longest = await nameIn('r'.repeat(53));
    expect(longest).toMatch(/^r+-petstore$/);
    expect(`${longest}-0123456789`.length).toBeLessThanOrEqual(63);
    expect(await nameIn('demo')).toBe('demo-echoperator-petstore');
  });

  it('can write to its volume, and satisfies the Pod Security Standard `restricted`', async () => {
    const rendering = await render({ ...on, podSecurityContext: { fsGroup: 1 } });
    const pod = rendering.one('StatefulSet').spec!.template.spec!;
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, fsGroup: 1 });
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

  it('is not used if the values name another pet store', async () => {
    const elsewhere = { pet: { address: 'pets.example:443', tls: { enabled: true, existingSecret: 'pets-ca' } } };
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

  it('takes another service name, TLS and another volume from the values', async () => {
    const rendering = await render({
      ...on,
      pet: { tls: { enabled: true, caSecret: 'pets-tls' } },
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

  it('gets its certificate from cert-manager if the values name an issuer, and the operator trusts it', async () => {
    const issuerRef = { name: 'internal', kind: 'ClusterIssuer' };
    const values = { ...on, petstore: { enabled: true, tls: { certManager: { enabled: true, issuerRef } } } };
    const rendering = await render(values);
    const secretName = 'demo-echoperator-petstore-tls';
    expect(rendering.one('Certificate').spec).toMatchObject({
      secretName,
      dnsNames: ['petstore-service.operators.svc'],
      usages: expect.arrayContaining(['server auth', 'client auth']),
      issuerRef,
    });
    expect(rendering.one('StatefulSet').spec!.template.spec!.volumes).toEqual([
      { name: 'tls', secret: { secretName } },
    ]);
    expect(rendering.one('Deployment').spec!.template.spec!.volumes).toMatchObject([{ secret: { secretName } }]);
    expect(rendering.one('ConfigMap').data).toMatchObject({
      PETSTORE_TLS: 'true',
      PETSTORE_CA_FILE: '/etc/echoperator/petstore/ca.crt',
    });
    const named = { existingSecret: 'mine', certManager: { enabled: true, issuerRef } };
    expect((await render({ ...on, petstore: { enabled: true, tls: named } })).one('Certificate').spec.secretName).toBe(
      'mine',
    );
    await expect(
      render({ ...on, petstore: { enabled: true, tls: { certManager: { enabled: true } } } }),
    ).rejects.toThrow('requires petstore.tls.certManager.issuerRef');
    // With another pet store, the operator's side is not known.
    const elsewhere = { ...values, pet: { address: 'pets.example:443' } };
    expect((await render(elsewhere)).one('ConfigMap').data).toMatchObject({ PETSTORE_TLS: 'false' });
  });

  it('has a network policy unless its own switch is off', async () => {
    const policies = async (petstore: object) =>
      (await render({ ...on, petstore: { ...on.petstore, ...petstore } })).all('NetworkPolicy').map(nameOf);
    expect(await policies({})).toEqual(['demo-echoperator-petstore']);
    expect(await policies({ networkPolicy: { enabled: false } })).toEqual([]);
  });

  it('accepts connections only from the operator if there are network policies', async () => {
    const rendering = await render({ ...on, networkPolicy: { enabled: true } });
    const operator = rendering.one('NetworkPolicy', 'demo-echoperator').spec!;
    const dns = {
      ports: [
        { protocol: 'UDP', port: 53 },
        { protocol: 'TCP', port: 53 },
      ],
    };
    const to = [{ podSelector: { matchLabels: selector } }];
    expect(operator.egress).toEqual(expect.arrayContaining([{ ports: [{ protocol: 'TCP', port: 6742 }], to }, dns]));
    expect(rendering.one('NetworkPolicy', 'demo-echoperator-petstore').spec).toEqual({
      podSelector: { matchLabels: selector },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        { ports: [{ protocol: 'TCP', port: 'grpc' }], from: [{ podSelector: operator.podSelector }] },
        { ports: [{ protocol: 'TCP', port: 'http' }] },
      ],
    });
  });

  it('accepts other clients, and limits access to its metrics, if the values say so', async () => {
    const [mesh, scraper] = ['mesh', 'monitoring'].map((name) => ({ namespaceSelector: { matchLabels: { name } } }));
    const rendering = await render({
      ...on,
      petstore: { enabled: true, tls: { enabled: false }, networkPolicy: { from: [mesh] } },
      networkPolicy: { enabled: true, metrics: { from: [scraper] } },
    });
    const { podSelector } = rendering.one('NetworkPolicy', 'demo-echoperator').spec!;
    expect(rendering.one('NetworkPolicy', 'demo-echoperator-petstore').spec?.ingress).toMatchObject([
      { ports: [{ port: 'grpc' }], from: [{ podSelector }, mesh] },
      { ports: [{ port: 'http' }], from: [scraper] },
    ]);
    await expect(render({ petstore: { networkPolicy: { from: [{ pods: {} }] } } })).rejects.toThrow('pods');
  });

  it('is reached on its pod port, and another pet store on the port of its address', async () => {
    const egress = async (values: object) => {
      const rendering = await render({ ...on, networkPolicy: { enabled: true }, ...values });
      return rendering.one('NetworkPolicy', 'demo-echoperator').spec?.egress?.map(({ ports }) => ports?.[0]?.port);
    };
    expect(await egress({ petstore: { enabled: true, tls: { enabled: false }, service: { port: 80 } } })).toEqual([
      443, 6742, 53,
    ]);
    expect(await egress({ pet: { address: 'pets.example:50051' } })).toEqual([443, 50051, 53]);
  });

  it('serves only clients with a certificate unless one value is false', async () => {
    const enabled = { ...on, petstore: { enabled: true } };
    await expect(render(enabled)).rejects.toThrow('petstore.enabled requires petstore.tls.existingSecret');
    await expect(render(enabled)).rejects.toThrow('With petstore.tls.enabled=false');
    const rendering = await render({ ...on, petstore: { enabled: true, tls: { existingSecret: 'pets-tls' } } });
    const store = rendering.one('StatefulSet').spec!.template.spec!;
    expect(store.volumes).toEqual([{ name: 'tls', secret: { secretName: 'pets-tls' } }]);
    expect(store.containers[0]?.env).toEqual(
      expect.arrayContaining([
        { name: 'PETSTORE_TLS_CERT_FILE', value: '/etc/petstore/tls.crt' },
        { name: 'PETSTORE_TLS_KEY_FILE', value: '/etc/petstore/tls.key' },
        { name: 'PETSTORE_TLS_CLIENT_CA_FILE', value: '/etc/petstore/ca.crt' },
      ]),
    );
    // The operator presents the certificate of the same Secret.
    const files = { PETSTORE_CERT_FILE: '/etc/echoperator/petstore/tls.crt', PETSTORE_TLS: 'true' };
    expect(rendering.one('ConfigMap').data).toMatchObject(files);
    expect(rendering.one('Deployment').spec!.template.spec!.volumes).toEqual([
      {
        name: 'petstore',
        secret: {
          secretName: 'pets-tls',
          items: ['ca.crt', 'tls.crt', 'tls.key'].map((key) => ({ key, path: key })),
        },
      },
    ]);
    // Off: nothing of it is left, also where a Secret is named.
    const off = await render({
      ...on,
      petstore: { enabled: true, tls: { enabled: false, existingSecret: 'pets-tls' } },
    });
    expect(off.one('ConfigMap').data).toMatchObject({ PETSTORE_TLS: 'false' });
    expect(JSON.stringify(off.one('StatefulSet'))).not.toMatch(/TLS|pets-tls|hostAliases/);
    expect(off.one('Deployment').spec!.template.spec!.volumes).toBeUndefined();
  });

  it('takes null for the default of its switches, which is on', async () => {
    const nulls = { enabled: true, tls: { enabled: null }, networkPolicy: { enabled: null } };
    await expect(render({ petstore: nulls })).rejects.toThrow('petstore.tls.existingSecret');
    const rendering = await render({ petstore: { ...nulls, tls: { enabled: null, existingSecret: 'pets' } } });
    const policies = rendering.all('NetworkPolicy').map(nameOf);
    expect(policies).toEqual(['demo-echoperator-petstore']);
  });

  it('lets its command line connect in its pod under the name of the certificate', async () => {
    const rendering = await render({ ...on, petstore: { enabled: true, tls: { existingSecret: 'pets-tls' } } });
    const { hostAliases, containers } = rendering.one('StatefulSet').spec!.template.spec!;
    expect(hostAliases).toEqual([{ ip: '127.0.0.1', hostnames: ['petstore-service.operators.svc'] }]);
    const address = { name: 'PETSTORE_ADDRESS', value: 'petstore-service.operators.svc:6742' };
    expect(containers[0]?.env).toContainEqual(address);
  });

  it('gives the operator a certificate of its own from pet.tls.existingSecret, also for a pet store elsewhere', async () => {
    const volumesOf = async (values: object) =>
      (await render({ ...on, ...values })).one('Deployment').spec!.template.spec!.volumes;
    const petstore = { enabled: true, tls: { existingSecret: 'pets-tls' } };
    const own = { tls: { existingSecret: 'mine' } };
    expect(await volumesOf({ petstore, pet: own })).toMatchObject([
      { secret: { secretName: 'mine', items: [{}, {}, {}] } },
    ]);
    const elsewhere = { address: 'pets.example:443', tls: { enabled: true, existingSecret: 'mine' } };
    expect(await volumesOf({ pet: elsewhere })).toMatchObject([{ secret: { items: [{ key: 'ca.crt' }] } }]);
    const both = { ...elsewhere, tls: { ...elsewhere.tls, clientCertificate: true } };
    expect(await volumesOf({ pet: both })).toMatchObject([{ secret: { items: [{}, {}, {}] } }]);
  });

  it('rejects TLS on only one side', async () => {
    const values = { ...on, pet: { tls: { enabled: true } } };
    await expect(render(values)).rejects.toThrow('pet.tls.enabled requires petstore.tls.enabled');
    // The chart does not know what another pet store serves.
    const rendering = await render({ ...values, pet: { ...values.pet, address: 'pets.example:443' } });
    expect(rendering.one('ConfigMap').data?.PETSTORE_ADDRESS).toBe('pets.example:443');
  });

  it.each([
    ['an address without a port', { pet: { address: 'petstore' } }, 'address'],
    ['an invalid service name', { petstore: { service: { name: '-' } } }, 'name'],
    ['an invalid size', { petstore: { storage: { size: 'much' } } }, 'size'],
    ['a misspelt value', { petstore: { enable: true } }, 'enable'],
  ])('rejects %s', async (_, values, named) => {
    await expect(render(values)).rejects.toThrow(named);
  });
});

describe('examples/pet-store.yaml', () => {
  it("has the chart's pod, under other names", async () => {
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
