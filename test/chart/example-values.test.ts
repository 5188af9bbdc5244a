import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Helm, helmNames } from './helm.ts';

const folder = join(import.meta.dirname, '../../examples/values');

describe.each(helmNames)('examples/values, by %s', (name) => {
  const render = async (file: string) => (await Helm.find(name)).render({ valuesFiles: [join(folder, file)] });

  it.each(readdirSync(folder))('%s renders', async (file) => {
    expect((await render(file)).all('Deployment')).toHaveLength(1);
  });

  it('hardened.yaml limits what every pod and container may do and use', async () => {
    const rendering = await render('hardened.yaml');
    const specs = [...rendering.podSpecs()];
    expect(specs.map(([pod]) => pod).sort()).toEqual([
      'Deployment/demo-echoperator',
      'Job/demo-echoperator-crds',
      'Job/demo-echoperator-uninstall',
      'Pod/demo-echoperator-test',
      'StatefulSet/demo-echoperator-petstore',
    ]);
    for (const [pod, { securityContext, containers }] of specs) {
      expect([pod, securityContext]).toMatchObject([
        pod,
        { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      ]);
      for (const container of containers) {
        expect([pod, container]).toMatchObject([
          pod,
          {
            securityContext: {
              readOnlyRootFilesystem: true,
              allowPrivilegeEscalation: false,
              capabilities: { drop: ['ALL'] },
            },
            resources: {
              limits: { cpu: expect.anything(), memory: expect.anything(), 'ephemeral-storage': expect.anything() },
            },
          },
        ]);
      }
    }
  });

  it('hardened.yaml has a NetworkPolicy for every pod, and a budget for the operator', async () => {
    const rendering = await render('hardened.yaml');
    const policies = rendering.all('NetworkPolicy').map(({ metadata, spec }) => {
      expect(spec?.policyTypes).toEqual(['Ingress', 'Egress']);
      return metadata?.name;
    });
    const pods = [...rendering.podSpecs().keys()].map((pod) => pod.split('/')[1]);
    expect(policies.sort()).toEqual(pods.sort());
    expect(rendering.one('PodDisruptionBudget').spec?.maxUnavailable).toBe(1);
  });

  it('hardened.yaml uses TLS everywhere, binds no ClusterRole to the operator, and gives users no rights', async () => {
    const rendering = await render('hardened.yaml');
    expect(rendering.one('ConfigMap').data).toMatchObject({
      PETSTORE_TLS: 'true',
      PETSTORE_CERT_FILE: '/etc/echoperator/petstore/tls.crt',
      PSQL_SSLMODE: 'verify-full',
      PSQL_TABLES: 'public.students',
    });
    expect(JSON.stringify(rendering.one('StatefulSet'))).toContain('PETSTORE_TLS_CLIENT_CA_FILE');
    const bound = rendering.all('ClusterRoleBinding').flatMap(({ subjects = [] }) => subjects.map((one) => one.name));
    expect(bound).not.toContain('demo-echoperator');
    expect(JSON.stringify(rendering.all('ClusterRole'))).not.toContain('aggregate-to');
  });
});
