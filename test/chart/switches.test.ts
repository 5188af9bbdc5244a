import { describe, expect, it } from '@jest/globals';
import { controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { Helm, helmNames } from './helm.ts';

describe.each(helmNames)('switches that users of other charts know, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });
  const everything = {
    networkPolicy: { enabled: true },
    controllers: { pet: { enabled: true } },
    petstore: { enabled: true, tls: { enabled: false } },
    monitoring: { serviceMonitor: 'always' },
    serviceAccount: { annotations: { role: 'r' } },
  };

  it('commonLabels and commonAnnotations reach every object, beside those of the chart', async () => {
    const commonLabels = { team: 'platform', 'app.kubernetes.io/name': 'stolen' };
    const commonAnnotations = { note: 'hello' };
    const before = await render(everything);
    const after = await render({ ...everything, commonLabels, commonAnnotations });
    expect(after.names()).toEqual(before.names());
    for (const [index, { metadata }] of after.manifests.entries()) {
      const { labels, annotations } = before.manifests[index]!.metadata!;
      expect(metadata?.labels).toEqual({ ...labels, team: 'platform' });
      expect(metadata?.annotations).toEqual({ ...annotations, ...commonAnnotations });
    }
    const { selector, template } = after.one('Deployment').spec!;
    expect(selector).toEqual(before.one('Deployment').spec?.selector);
    expect(template.metadata?.labels).toMatchObject({ team: 'platform', 'app.kubernetes.io/name': 'echoperator' });
  });

  it('podAnnotations take precedence over commonAnnotations where an object is a pod', async () => {
    const values = { commonAnnotations: { note: 'all', both: 'all' }, podAnnotations: { both: 'pod' } };
    const { annotations } = (await render(values)).one('Pod').metadata!;
    expect(annotations).toMatchObject({ note: 'all', both: 'pod', 'helm.sh/hook': 'test' });
  });

  it('extraObjects may be manifests and texts, with templates', async () => {
    const manifest = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: '{{ .Release.Name }}-one' } };
    const text = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include "echoperator.fullname" . }}-two\n';
    const rendering = await render({ extraObjects: [manifest, text] });
    expect(rendering.all('ConfigMap').map(({ metadata }) => metadata?.name)).toEqual(
      expect.arrayContaining(['demo-echoperator', 'demo-one', 'demo-echoperator-two']),
    );
  });

  it("extraVolumes, extraVolumeMounts and extraContainers extend the operator's pods, and no others", async () => {
    const volume = { name: 'scratch', emptyDir: {} };
    const mount = { name: 'scratch', mountPath: '/scratch' };
    const container = { name: 'proxy', image: 'proxy:1' };
    const values = { extraVolumes: [volume], extraVolumeMounts: [mount], extraContainers: [container] };
    const rendering = await render(values);
    const { containers, volumes } = rendering.one('Deployment').spec!.template.spec!;
    expect(volumes).toEqual([volume]);
    expect(containers[0]?.volumeMounts).toEqual([mount]);
    expect(containers.slice(1)).toEqual([container]);
    for (const [pod, spec] of rendering.podSpecs()) {
      if (!pod.startsWith('Deployment'))
        expect([pod, spec.containers.length, spec.volumes]).toEqual([pod, 1, undefined]);
    }
    const pet = { controllers: { pet: { enabled: true } }, pet: { tls: { enabled: true, caSecret: 'ca' } } };
    const both = (await render({ ...values, ...pet })).one('Deployment').spec!.template.spec!;
    expect(both.volumes?.map((each) => each.name)).toEqual(['petstore', 'scratch']);
    expect(both.containers[0]?.volumeMounts?.map((each) => each.name)).toEqual(['petstore', 'scratch']);
  });

  it.each([
    [{}, { maxUnavailable: 1 }],
    [{ maxUnavailable: '34%' }, { maxUnavailable: '34%' }],
    [{ minAvailable: 2 }, { minAvailable: 2 }],
    [{ minAvailable: 0 }, { minAvailable: 0 }],
  ])('podDisruptionBudget=%j allows %j', async (podDisruptionBudget, expected) => {
    const {
      selector: _,
      unhealthyPodEvictionPolicy: __,
      ...amounts
    } = (await render({ podDisruptionBudget })).one('PodDisruptionBudget').spec!;
    expect(amounts).toEqual(expected);
  });

  it('podDisruptionBudget.enabled=false leaves it out', async () => {
    expect((await render({ podDisruptionBudget: { enabled: false } })).all('PodDisruptionBudget')).toEqual([]);
  });

  it.each([[{}], [{ watchNamespaces: ['team-a'] }]])(
    'rbac.create=false leaves out every role and binding, with %j',
    async (scope) => {
      const rendering = await render({ ...scope, rbac: { create: false } });
      expect(rendering.names().filter((each) => /Role/.test(each))).toEqual([]);
      // Somebody else binds their permissions.
      expect(rendering.all('ServiceAccount').map(({ metadata }) => metadata?.name)).toEqual([
        'demo-echoperator',
        'demo-echoperator-crds',
        'demo-echoperator-uninstall',
      ]);
    },
  );

  it('explain.enabled=false records nothing', async () => {
    const rendering = await render({ explain: { enabled: false } });
    expect(rendering.one('ConfigMap').data?.EXPLAIN_DIR).toBe('');
  });

  it('rbac.aggregate names the kinds that users of a namespace get', async () => {
    const kindsOf = async (aggregate: object) => {
      const rendering = await render({ rbac: { aggregate } });
      const roles = rendering.all('ClusterRole').filter(({ metadata }) => /-(edit|view)\./.test(metadata?.name ?? ''));
      return roles.map(({ rules = [] }) =>
        rules.flatMap(({ resources = [] }) => resources).filter((each) => !each.includes('/')),
      );
    };
    const everyKind = (isNamed: boolean) => Object.fromEntries(controllerNames.map((each) => [each, isNamed]));
    const all = controllerNames.map((each) => controllers[each].kind.plural);
    expect(await kindsOf(everyKind(true))).toEqual([all, all]);
    expect(await kindsOf(everyKind(false))).toEqual([]);
    expect(await kindsOf({ ...everyKind(false), pet: true })).toEqual([['pets'], ['pets']]);
  });

  it("the chart's pods and those of the operator need Linux, besides other labels of nodes", async () => {
    const rendering = await render({ nodeSelector: { disk: 'ssd' } });
    for (const { nodeSelector } of rendering.podSpecs().values()) {
      expect(nodeSelector).toEqual({ disk: 'ssd', 'kubernetes.io/os': 'linux' });
    }
    expect(JSON.parse(rendering.one('ConfigMap').data?.CHILD_POD_NODE_SELECTOR ?? '')).toEqual({
      'kubernetes.io/os': 'linux',
    });
    const anywhere = await render({ nodeSelector: { 'kubernetes.io/os': null } });
    for (const spec of anywhere.podSpecs().values()) expect(spec).not.toHaveProperty('nodeSelector');
  });
});
