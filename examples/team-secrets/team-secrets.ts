/**
 * An operator for platforms with teams: copies the registry credentials and certificates of each team's namespaces to
 * the namespaces of Argo CD and Istio. A port of the secrets operator of Akamai App Platform: docs/ported-operators.md.
 *
 *     node team-secrets.ts role     prints its ClusterRole
 *     node team-secrets.ts          runs
 */
import { isDeepStrictEqual } from 'node:util';
import {
  deleteIfPresent,
  done,
  keyString,
  type ObjectKey,
  type Operator,
  permissions,
  runOperator,
  watches,
} from '@echoperator/runtime';
import { allow } from '@echoperator/runtime/controller';
import { Secret } from '@echoperator/runtime/kinds';

/** The namespace of the copies, by the type of the Secret. */
const targets: Readonly<Record<string, string>> = {
  'kubernetes.io/dockerconfigjson': 'argocd',
  'kubernetes.io/tls': 'istio-system',
};

/** On a copy: `namespace/name` of the Secret that it copies. The name of the copy alone is ambiguous. */
const sourceAnnotation = 'team-secrets.example.com/source';

const isOfTeam = ({ namespace }: { readonly namespace?: string }): boolean => namespace?.startsWith('team-') === true;

/** The key of the Secret that a copy copies. */
function sourceOf({ metadata }: Secret): readonly ObjectKey[] {
  const [namespace, name] = metadata.annotations?.[sourceAnnotation]?.split('/') ?? [];
  return namespace === undefined || name === undefined ? [] : [{ namespace, name }];
}

export function addTeamSecrets({ manager }: Pick<Operator, 'manager'>): void {
  const { store } = manager.informer(Secret);
  manager.controller(Secret, {
    name: 'team-secrets',
    predicate: ({ object }) => isOfTeam(object.metadata),
    // A copy without its Secret is found here too: after a start, the list of Secrets enqueues the keys of all copies.
    watches: [watches(Secret, sourceOf)],
    reconcile: async (key, { client, signal }) => {
      const secret = isOfTeam(key) ? store.get(key) : undefined;
      for (const [type, namespace] of Object.entries(targets)) {
        const copyKey = { namespace, name: `copy-${key.namespace}-${key.name}` };
        const copy = store.get(copyKey);
        const isCopy = copy?.metadata.annotations?.[sourceAnnotation] === keyString(key);
        const isCurrent = isCopy && isDeepStrictEqual(copy.data, secret?.data);
        const isWanted = secret?.type === type;
        if (isCopy && !isWanted) await deleteIfPresent(client, Secret, copyKey, { uid: copy.metadata.uid, signal });
        if (!isWanted || isCurrent) continue;
        const metadata = { ...copyKey, annotations: { [sourceAnnotation]: keyString(key) } };
        await client.apply(Secret, { metadata, type, data: secret.data ?? {} }, { force: true, signal });
      }
      return done;
    },
  });
}

const name = 'team-secrets';
const clusterRole = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name } };
const rules = permissions([{ permissions: [allow(['get', 'list', 'watch', 'create', 'patch', 'delete'], Secret)] }]);

// False when a test imports this file.
if (import.meta.main) {
  if (process.argv[2] === 'role') console.log(JSON.stringify({ ...clusterRole, rules }));
  else await runOperator(process, { name, leaderElection: name, port: 8080 }, addTeamSecrets);
}
