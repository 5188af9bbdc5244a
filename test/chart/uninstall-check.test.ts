import { describe, expect, it } from '@jest/globals';

import { kindsWithFinalizer } from '../../src/operator.ts';
import { Helm, helmNames } from './helm.ts';

const job = 'demo-echoperator-uninstall';

describe.each(helmNames)('the Job that can block `helm uninstall`, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });

  it('runs the image with its subcommand for the watched namespaces', async () => {
    const { spec } = (await render({ logLevel: 'warn', watchNamespaces: ['team-a', 'team-b'] })).one('Job', job);
    expect(spec).toMatchObject({ backoffLimit: 1, activeDeadlineSeconds: 120, ttlSecondsAfterFinished: 86_400 });
    expect(spec?.template.spec).toMatchObject({ restartPolicy: 'Never', serviceAccountName: job });
    expect(spec?.template.spec?.containers).toMatchObject([
      {
        args: ['check-uninstall'],
        terminationMessagePolicy: 'FallbackToLogsOnError',
        env: [
          { name: 'NAMESPACE', value: 'operators' },
          { name: 'ENV', value: 'production' },
          { name: 'LOG_LEVEL', value: 'warn' },
          { name: 'HELM_RELEASE', value: 'demo' },
          { name: 'WATCH_NAMESPACES', value: 'team-a,team-b' },
        ],
      },
    ]);
  });

  it('runs after its permissions exist, and Helm deletes all hooks when it succeeds', async () => {
    const rendering = await render({ networkPolicy: { enabled: true } });
    const parts = rendering.manifests.filter(
      ({ metadata }) => metadata?.annotations?.['helm.sh/hook'] === 'pre-delete',
    );
    const weights = parts.map(({ kind, metadata }) => [kind, metadata?.annotations?.['helm.sh/hook-weight']]);
    expect(Object.fromEntries(weights)).toEqual({
      ServiceAccount: '-3',
      ClusterRole: '-3',
      NetworkPolicy: '-2',
      ClusterRoleBinding: '-2',
      Job: '-1',
    });
    for (const { metadata } of parts) {
      expect(metadata?.annotations).toMatchObject({
        'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
      });
    }
    expect(rendering.one('Job', job).metadata?.annotations).toMatchObject({
      'helm.sh/hook-output-log-policy': 'hook-failed',
    });
  });

  it('may list the kinds that the operator finalizes, and nothing else', async () => {
    const rendering = await render();
    expect(rendering.one('ClusterRole', `${job}.operators`).rules).toEqual(
      kindsWithFinalizer.map(({ kind }) => ({ apiGroups: [kind.group], resources: [kind.plural], verbs: ['list'] })),
    );
    expect(rendering.one('ClusterRoleBinding', `${job}.operators`)).toMatchObject({
      roleRef: { kind: 'ClusterRole', name: `${job}.operators` },
      subjects: [{ kind: 'ServiceAccount', name: job, namespace: 'operators' }],
    });
  });

  it('looks in every namespace if CustomResourceDefinitions are deleted afterwards, with every object in the cluster', async () => {
    const env = async (values: object) =>
      (await render({ watchNamespaces: ['team-a'], ...values })).one('Job', job).spec!.template.spec!.containers[0]!
        .env;
    const everywhere = { name: 'WATCH_NAMESPACES', value: '' };
    expect(await env({ crds: { keep: false } })).toContainEqual(everywhere);
    expect(await env({ crds: { keep: true } })).not.toContainEqual(everywhere);
    expect(await env({ crds: { keep: false }, scope: { namespaced: true } })).not.toContainEqual(everywhere);
  });

  it('can be switched off together with its permissions', async () => {
    const rendering = await render({ uninstallCheck: { enabled: false }, networkPolicy: { enabled: true } });
    expect(rendering.names().filter((found) => found.includes('uninstall'))).toEqual([]);
  });
});
