import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { chart, Helm, helmNames } from './helm.ts';

async function shippedCrds(): Promise<readonly { metadata: { name: string } }[]> {
  const folder = join(chart, 'files/crds');
  const files = (await readdir(folder)).sort();
  return Promise.all(files.map(async (file) => parse(await readFile(join(folder, file), 'utf8'))));
}

describe.each(helmNames)('the Job that applies the CustomResourceDefinitions, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });
  const hooks = {
    'helm.sh/hook': 'pre-install,pre-upgrade',
    'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
  };

  it('runs the image with its subcommand and the settings that it needs', async () => {
    const job = (await render({ env: 'say "hi"', logLevel: 'warn' })).one('Job', 'demo-echoperator-crds').spec!;
    expect(job).toMatchObject({ backoffLimit: 3, activeDeadlineSeconds: 240, ttlSecondsAfterFinished: 86_400 });
    const { restartPolicy, serviceAccountName, containers } = job.template.spec!;
    expect({ restartPolicy, serviceAccountName }).toEqual({
      restartPolicy: 'Never',
      serviceAccountName: 'demo-echoperator-crds',
    });
    expect(containers).toHaveLength(1);
    expect(containers[0]).not.toHaveProperty('command');
    // The ConfigMap does not exist yet.
    expect(containers[0]).not.toHaveProperty('envFrom');
    expect(containers[0]).toMatchObject({
      args: ['apply-crds'],
      env: [
        { name: 'NAMESPACE', value: 'operators' },
        { name: 'ENV', value: 'say "hi"' },
        { name: 'LOG_LEVEL', value: 'warn' },
      ],
    });
  });

  it('gets the additional environment variables too', async () => {
    const extraEnv = [{ name: 'LOG_LEVEL', value: 'trace' }];
    const env = (await render({ extraEnv })).one('Job', 'demo-echoperator-crds').spec?.template.spec?.containers[0]
      ?.env;
    expect(env?.filter(({ name: variable }) => variable === 'LOG_LEVEL')).toEqual(extraEnv);
  });

  it('runs after its permissions exist, and Helm deletes all hooks when it succeeds', async () => {
    const rendering = await render({ networkPolicy: { enabled: true } });
    const parts = rendering.manifests
      .filter(({ metadata }) => metadata?.annotations?.['helm.sh/hook'] === hooks['helm.sh/hook'])
      .map(({ kind, metadata }) => ({ kind, name: metadata?.name, annotations: metadata?.annotations }));
    const weights = parts.map(({ kind, annotations }) => [kind, Number(annotations?.['helm.sh/hook-weight'])]);
    expect(Object.fromEntries(weights)).toEqual({
      ServiceAccount: -3,
      ClusterRole: -3,
      NetworkPolicy: -2,
      ClusterRoleBinding: -2,
      Job: -1,
    });
    for (const { kind, name: part, annotations } of parts) {
      expect(part).toBe(kind.startsWith('Cluster') ? 'demo-echoperator-crds.operators' : 'demo-echoperator-crds');
      expect(annotations).toMatchObject(hooks);
    }
    expect(rendering.one('Job', 'demo-echoperator-crds').metadata?.annotations).toMatchObject({
      'helm.sh/hook-output-log-policy': 'hook-failed',
    });
  });

  it("may change only the chart's CustomResourceDefinitions", async () => {
    const rendering = await render();
    const resource = { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'] };
    const names = (await shippedCrds()).map(({ metadata }) => metadata.name);
    expect(names).toContain('echos.mmontes.io');
    expect(rendering.one('ClusterRole', 'demo-echoperator-crds.operators').rules).toEqual([
      { ...resource, resourceNames: names, verbs: ['get', 'patch'] },
      { ...resource, verbs: ['create'] },
    ]);
    expect(rendering.one('ClusterRoleBinding', 'demo-echoperator-crds.operators')).toMatchObject({
      roleRef: { kind: 'ClusterRole', name: 'demo-echoperator-crds.operators' },
      subjects: [{ kind: 'ServiceAccount', name: 'demo-echoperator-crds', namespace: 'operators' }],
    });
  });

  it.each([[{ upgradeJob: { enabled: false } }], [{ enabled: false }], [{ enabled: false, keep: false }]])(
    'can be switched off together with its permissions, by crds=%j',
    async (crds) => {
      const rendering = await render({ crds, networkPolicy: { enabled: true } });
      expect(rendering.names().filter((found) => found.includes('-crds'))).toEqual([]);
    },
  );

  it('with crds.keep=false has a second Job, which deletes them after the release and may do nothing else', async () => {
    const values = { crds: { keep: false }, networkPolicy: { enabled: true } };
    const added = (await render(values)).manifests.filter(({ metadata }) => metadata?.name?.includes('-crds-delete'));
    expect(added.map(({ kind }) => kind).sort()).toEqual([
      'ClusterRole',
      'ClusterRoleBinding',
      'Job',
      'NetworkPolicy',
      'ServiceAccount',
    ]);
    for (const { metadata } of added) expect(metadata?.annotations?.['helm.sh/hook']).toBe('post-delete');
    const rendering = await render(values);
    expect(rendering.one('Job', 'demo-echoperator-crds-delete').spec?.template.spec).toMatchObject({
      serviceAccountName: 'demo-echoperator-crds-delete',
      containers: [{ args: ['delete-crds'] }],
    });
    expect(rendering.one('ClusterRole', 'demo-echoperator-crds-delete.operators').rules).toEqual([
      {
        apiGroups: ['apiextensions.k8s.io'],
        resources: ['customresourcedefinitions'],
        resourceNames: (await shippedCrds()).map(({ metadata }) => metadata.name),
        verbs: ['get', 'delete'],
      },
    ]);
    expect((await render({ ...values, scope: { namespaced: true } })).names().join()).not.toContain('-crds');
  });
});
