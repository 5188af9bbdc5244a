import { describe, expect, it } from '@jest/globals';
import { controllerNames } from '../../src/kinds.ts';
import { Helm } from './helm.ts';

const noServiceMonitor = 'created no ServiceMonitor';
const crdWarning = 'WARNING: crds.upgradeJob.enabled is false';

describe('the notes', () => {
  const notes = async (values: object = {}) => (await Helm.find('helm4')).notes(values);

  it('show how to check the operator, create an Echo and read its message', async () => {
    const said = await notes();
    for (const command of [
      'kubectl --namespace operators rollout status deployment/demo-echoperator',
      'helm test demo --namespace operators --logs',
      'kubectl apply -f -',
      'kubectl --namespace default logs job/hello',
    ]) {
      expect(said).toContain(command);
    }
  });

  it('show no Echo if nothing would print it', async () => {
    const said = await notes({ controllers: { echo: { enabled: false } } });
    expect(said).not.toMatch(/kind: Echo$|get echos|job\/hello/m);
    expect(said).toContain('Echo: controllers.echo.enabled\n');
  });

  it('show the command that uninstalls without the check', async () => {
    const command = 'helm uninstall demo --namespace operators --no-hooks';
    expect(await notes()).toContain(command);
    expect(await notes({ uninstallCheck: { enabled: false } })).not.toContain(command);
  });

  it('show the command that deletes what an uninstallation keeps', async () => {
    expect(await notes()).toMatch(/^ {2}kubectl delete customresourcedefinition( \S+)* echos\.mmontes\.io( \S+)*$/m);
  });

  it('show who leads, and an Echo in a namespace that is watched', async () => {
    expect(await notes()).toContain('kubectl --namespace operators get lease demo-echoperator');
    const said = await notes({ watchNamespaces: ['team-a', 'team-b'] });
    expect(said).toContain('watches only these namespaces: team-a, team-b.');
    expect(said).toContain('Before you remove one, delete its Pets, PostgresWriters and BookStores');
    expect(said).toContain('kubectl --namespace team-a logs job/hello');
    expect(said).not.toMatch(/namespace:? default/);
  });

  it('name the values that enable the kinds that are off, or else their addresses', async () => {
    const off = await notes();
    expect(off).toContain('Pet: controllers.pet.enabled, and petstore.enabled or pet.address\n');
    expect(off).toContain('PodSet: controllers.podSet.enabled\n');
    expect(off).toContain('PostgresWriter: controllers.postgresWriter.enabled, postgresWriter.host and');
    expect(off).not.toContain('WARNING');
    expect(off).not.toContain('kubectl get pets');
    const on = await notes({
      controllers: Object.fromEntries(controllerNames.map((controller) => [controller, { enabled: true }])),
      petstore: { enabled: true, tls: { enabled: false } },
      postgresWriter: { host: 'db.example', credentials: { existingSecret: 'db' } },
    });
    expect(on).toContain('keeps Pets in the pet store at petstore-service.operators.svc:6742.');
    expect(on).toContain(
      'kubectl --namespace operators exec statefulset/demo-echoperator-petstore -- /usr/local/bin/node /app/main.js list',
    );
    expect(on).toContain('write to the database postgres at db.example:5432.');
    expect(on).toContain('data-demo-echoperator-petstore-0');
    expect(on).not.toContain('ControllerDisabled');
  });

  it('warn if the pet store has no TLS, or if PostgresWriters may write to any table', async () => {
    const values = (tls: object, tables: readonly string[]) => ({
      controllers: { pet: { enabled: true }, postgresWriter: { enabled: true } },
      petstore: { enabled: true, tls },
      postgresWriter: { host: 'db.example', credentials: { existingSecret: 'db' }, tables },
    });
    const open = await notes(values({ enabled: false }, []));
    expect(open).toContain('WARNING: the pet store has no TLS.');
    expect(open).toContain('WARNING: postgresWriter.tables is empty.');
    expect(await notes(values({ existingSecret: 'pets' }, ['public.students']))).not.toMatch(/no TLS|is empty/);
  });

  it('warn if nothing upgrades the CustomResourceDefinitions, with the command that does', async () => {
    expect(await notes()).not.toContain(crdWarning);
    const said = await notes({ crds: { upgradeJob: { enabled: false } } });
    expect(said).toContain(crdWarning);
    expect(said).toContain('kubectl apply --server-side --force-conflicts --filename CHART/files/crds');
  });

  it.each([
    [{}, false],
    [{ maxUnavailable: 0 }, true],
    [{ maxUnavailable: '34%' }, false],
    [{ minAvailable: 2 }, false],
    [{ minAvailable: 3 }, true],
    [{ minAvailable: '66%' }, false],
    [{ minAvailable: '67%' }, true],
    [{ enabled: false, maxUnavailable: 0 }, false],
  ])('with podDisruptionBudget=%j warn that it prevents drains: %s', async (podDisruptionBudget, warned) => {
    expect((await notes({ podDisruptionBudget })).includes('cannot be drained')).toBe(warned);
  });

  it('warn if crds.enabled or crds.keep is false', async () => {
    expect(await notes({ crds: { enabled: false } })).toContain('WARNING: crds.enabled is false');
    const said = await notes({ crds: { keep: false } });
    expect(said).toContain('WARNING: crds.keep is false');
    expect(said).not.toContain('kubectl delete customresourcedefinition');
    expect(await notes({ crds: { enabled: false, keep: false } })).not.toContain('crds.keep');
  });

  it.each([
    ['auto', true],
    ['never', false],
    ['always', false],
  ])(
    'with monitoring.serviceMonitor=%s say that the cluster lacks the kind ServiceMonitor: %s',
    async (mode, mentioned) => {
      expect((await notes({ monitoring: { serviceMonitor: mode } })).includes(noServiceMonitor)).toBe(mentioned);
    },
  );
});
