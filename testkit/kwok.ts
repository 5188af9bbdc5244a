import { join } from 'node:path';
import type { V1MutatingAdmissionPolicy, V1MutatingAdmissionPolicyBinding, V1Node } from '@kubernetes/client-node';
import { execa } from 'execa';
import { Pod } from '../src/controllers/built-in-kinds.ts';
import { HttpClient } from '../src/runtime/client/http-client.ts';
import { kubeconfigConnection } from '../src/runtime/client/index.ts';
import { Transport } from '../src/runtime/client/transport.ts';
import { builtInKind, type Client } from '../src/runtime/index.ts';
import { eventually } from './eventually.ts';
import { Namespace } from './kinds.ts';
import type { TestCluster } from './test-cluster.ts';

/*
 * What is real and what is played where tests run against an API server without nodes:
 *
 * - Deployments, ReplicaSets, StatefulSets, Jobs, garbage collection, the binding and protection of volumes: the real
 *   controllers of kube-controller-manager (control-plane.ts).
 * - kubelet and volume provisioner: kwok (kwok-stages.yaml). Only for namespaces of {@link namespaceWithNode}: elsewhere pods
 *   stay as they were made, for tests that write the pods' status step by step.
 * - kube-scheduler: a mutating admission policy, which gives each pod of such a namespace the one node when it is created.
 * - external-resizer and the kubelet's part of a growth: test/integration/environment/played-volumes.ts, since the tests stop between its steps.
 */

const nodeName = 'kwok';
const label = 'pods-run';
const stages = join(import.meta.dirname, 'kwok-stages.yaml');

const Node = builtInKind<V1Node>({ group: '', version: 'v1', kind: 'Node', plural: 'nodes', scope: 'Cluster' });
const admission = { group: 'admissionregistration.k8s.io', version: 'v1', scope: 'Cluster' } as const;
const Policy = builtInKind<V1MutatingAdmissionPolicy>({
  ...admission,
  kind: 'MutatingAdmissionPolicy',
  plural: 'mutatingadmissionpolicies',
});
const Binding = builtInKind<V1MutatingAdmissionPolicyBinding>({
  ...admission,
  kind: 'MutatingAdmissionPolicyBinding',
  plural: 'mutatingadmissionpolicybindings',
});

/** Starts kwok against an API server, with a node. Returns what stops it. */
export async function startKwok(program: string, kubeconfig: string): Promise<() => Promise<void>> {
  const transport = new Transport(await kubeconfigConnection(kubeconfig), { userAgent: 'test' });
  try {
    await makeNode(new HttpClient(transport, 'test'));
  } finally {
    await transport.close();
  }
  const log = { file: join(kubeconfig, '..', 'kwok.log') };
  const flags = {
    kubeconfig,
    config: stages,
    'manage-single-node': nodeName,
    // Nobody looks at the node's Lease.
    'node-lease-duration-seconds': '0',
  };
  const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
  const kwok = execa(program, args, { reject: false, stdout: log, stderr: log });
  return async () => {
    kwok.kill('SIGTERM');
    await kwok;
  };
}

/** The grace period is what the controller of namespaces waits for, though kwok's pods end at once. */
async function makeNode(client: Client): Promise<void> {
  await client.create(Node, { metadata: { name: nodeName } });
  await client.create(Policy, {
    metadata: { name: nodeName },
    spec: {
      reinvocationPolicy: 'Never',
      matchConstraints: {
        resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
      },
      matchConditions: [{ name: 'unassigned', expression: '!has(object.spec.nodeName)' }],
      mutations: [
        {
          patchType: 'JSONPatch',
          jsonPatch: {
            expression: `[
              JSONPatch{op: "add", path: "/spec/nodeName", value: "${nodeName}"},
              JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: 1}
            ]`,
          },
        },
      ],
    },
  });
  await client.create(Binding, {
    metadata: { name: nodeName },
    spec: { policyName: nodeName, matchResources: { namespaceSelector: { matchLabels: { [label]: 'true' } } } },
  });
}

/** A namespace of the test's own, whose pods are given a node, and run there. */
export async function namespaceWithNode(cluster: TestCluster): Promise<string> {
  const namespace = await cluster.namespace({ [label]: 'true' });
  await untilNewPodsHave(cluster, namespace, nodeName);
  return namespace;
}

/** From now on there is no room for another pod of the namespace. */
export async function leaveNoRoom(cluster: TestCluster, namespace: string): Promise<void> {
  await labelNamespace(cluster, namespace, null);
  await untilNewPodsHave(cluster, namespace, undefined);
}

/** There is again. A pod that was created in between is not looked at again: delete it. */
export async function makeRoom(cluster: TestCluster, namespace: string): Promise<void> {
  await labelNamespace(cluster, namespace, 'true');
  await untilNewPodsHave(cluster, namespace, nodeName);
}

const labelNamespace = ({ client }: TestCluster, name: string, value: string | null) =>
  client.patch(Namespace, { name }, { type: 'merge', body: { metadata: { labels: { [label]: value } } } });

/** The API server learns of policies and labels by a watch. */
async function untilNewPodsHave({ client }: TestCluster, namespace: string, node: string | undefined): Promise<void> {
  const spec = { containers: [{ name: 'c', image: 'example.com/c' }] };
  await eventually(`new pods of ${namespace} have the node ${node}`, async () => {
    const pod = await client.create(Pod, { metadata: { name: 'trial', namespace }, spec }, { dryRun: true });
    return pod.spec?.nodeName === node;
  });
}
