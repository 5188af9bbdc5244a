import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { leasePermissions, type PolicyRule, permissions } from '@echoperator/runtime';
import { type Connection, kubeconfigConnection } from '@echoperator/runtime/client';
import { ClusterRole, ClusterRoleBinding } from '@echoperator/runtime/kinds';
import { FaultProxy, type ProxiedRequest, perturb } from '@echoperator/testing';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { parse, stringify } from 'yaml';
import { controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { startControlPlane } from '../../testkit/control-plane.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { externalScenariosOn, kindPlans, scenariosOn } from '../plans/index.ts';
import { ExternalPrograms, ExternalSystems } from './environment/external-systems.ts';

let cluster: TestCluster;
let connection: Connection;
let folder: string;
const resources = new AsyncDisposableStack();
let external: ExternalSystems;

beforeAll(async () => {
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'permissions-'));
  // Not the shared one, where volumes are provided as soon as they are asked for: a step of BookStore's provides its
  // own.
  const controlPlane = await startControlPlane(join(folder, 'control-plane'), [
    join(import.meta.dirname, '../../crds'),
  ]);
  resources.defer(() => controlPlane.stop());
  cluster = await TestCluster.at(controlPlane.config.kubeconfigPath, controlPlane.auditLog);
  resources.defer(() => cluster.disconnect());
  connection = await kubeconfigConnection(cluster.kubeconfig);
  const programs = resources.use(await ExternalPrograms.start(folder));
  external = resources.use(new ExternalSystems(cluster.client, programs.settings));
});

afterAll(() => resources.disposeAsync());

/** A user with just these rules. */
async function connectAs(user: string, rules: readonly PolicyRule[]): Promise<Connection> {
  const metadata = { name: user };
  await cluster.client.apply(ClusterRole, { metadata, rules }, { force: true });
  const apiGroup = 'rbac.authorization.k8s.io';
  const subjects = [{ apiGroup, kind: 'User', name: user }];
  const roleRef = { apiGroup, kind: 'ClusterRole', name: user };
  await cluster.client.apply(ClusterRoleBinding, { metadata, roleRef, subjects }, { force: true });
  const config = parse(await readFile(cluster.kubeconfig, 'utf8'));
  config.users[0].user.as = user;
  const path = join(folder, `${user}.kubeconfig`);
  await writeFile(path, stringify(config), { mode: 0o600 });
  return kubeconfigConnection(path);
}

/**
 * What a request needs: `patch deployments`, `patch echos/status`. Informers list by a watch, but list where the API
 * server cannot stream. The API server allows an apply that creates only to those who may create.
 */
function verbsOf({ verb, path, query, resource, name }: ProxiedRequest): readonly string[] {
  if (resource === '') return [];
  const part = path.split(`/${resource}/${name}/`)[1];
  const what = part === undefined ? resource : `${resource}/${part}`;
  if (verb === 'watch') return [`watch ${what}`, `list ${what}`];
  return verb === 'patch' && query.has('force') ? [`patch ${what}`, `create ${what}`] : [`${verb} ${what}`];
}

const allowed = (rules: readonly PolicyRule[]): readonly string[] =>
  rules
    .flatMap(({ resources: named, verbs }) => verbs.flatMap((verb) => named.map((each) => `${verb} ${each}`)))
    .sort();

describe.each(controllerNames)('the controller %s', (name) => {
  test('works with the rules that follow from its definition, and needs each verb of them', async () => {
    const rules = permissions([controllers[name]]);
    const used = new Set<string>();
    const upstream = await connectAs(`permissions-${name.toLowerCase()}`, [...rules, ...leasePermissions]);
    await using proxy = await FaultProxy.start({
      upstream,
      observer: {
        request: (request) => {
          for (const verb of verbsOf(request)) used.add(verb);
        },
      },
    });
    const beginnings = kindPlans[name].permissionPlans;
    const isMeant = (plan: string): boolean =>
      beginnings.some((each) => `${plan} `.startsWith(`${each} `) || plan.startsWith(`${each}/`));
    const scenarios = [...scenariosOn(cluster), ...externalScenariosOn(external)].filter((scenario) =>
      beginnings.some((each) => each.split('/')[0] === scenario.name),
    );
    const { failures } = await perturb({
      connection,
      operatorConnection: proxy.connection,
      log: pino({ level: 'silent' }),
      scenarios,
      // The operator must read what it has not seen.
      select: (names) => names.filter((plan) => plan.endsWith(' stale') && isMeant(plan)),
      concurrency: 8,
    });
    expect(failures.map(({ message }) => message)).toEqual([]);
    // Events and leases are not the controller's own. The API server asks for `update` when a child with
    // `blockOwnerDeletion` is written: see rbac.test.ts. A BookStore restarts a pod only when its file system has not
    // grown for a minute: see book-store.test.ts.
    const elsewhere = /^(\w+ (events|leases)|update \w+\/finalizers)$/;
    const isCompared = (each: string): boolean =>
      !elsewhere.test(each) && !(name === 'bookStore' && each === 'delete pods');
    expect([...used].filter(isCompared).sort()).toEqual(allowed(rules).filter(isCompared));
  });
});
