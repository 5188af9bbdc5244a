import { join } from 'node:path';
import type { Client } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import {
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  Namespace,
  Node,
  Pod,
} from '@echoperator/runtime/kinds';
import { execa } from 'execa';
import { HttpClient } from '../packages/runtime/src/client/http-client.ts';
import { Transport } from '../packages/runtime/src/client/transport.ts';
import { eventually } from './eventually.ts';
import type { TestCluster } from './test-cluster.ts';

/*
 * What is real and what is simulated in tests with an API server and without nodes:
 *
 * - Deployments, ReplicaSets, StatefulSets, Jobs, garbage collection, the binding and protection of volumes: the real
 *   controllers of kube-controller-manager (control-plane.ts).
 * - kubelet and volume provisioner: simulated by kwok (kwok-stages.yaml) in namespaces of {@link namespaceWithNode}. In
 *   other namespaces nothing changes pods, so that a test can write their status step by step.
 * - kube-scheduler: simulated by a mutating admission policy, which assigns each new pod of such a namespace to the
 *   only node. The oldest Kubernetes that the chart supports (`KUBERNETES=oldest`) lacks these policies, so there kwok
 *   does not run.
 * - kubelet, where a test decides how a container ends: TestCluster.endPods, and crash-detection.test.ts.
 * - external-resizer and the kubelet's part of a volume's growth: simulated by
 *   test/integration/environment/played-volumes.ts, because the tests stop between the steps of the growth.
 */

const nodeName = 'kwok';
/** A namespace with this label has a node: see {@link namespaceWithNode}. */
const label = 'pods-run';
const stages = join(import.meta.dirname, 'kwok-stages.yaml');

/** Creates a node and starts kwok. @param moreStages a file. @returns a function that stops kwok */
export async function startKwok(
  program: string,
  kubeconfig: string,
  moreStages: readonly string[] = [],
): Promise<() => Promise<void>> {
  const transport = new Transport(await kubeconfigConnection(kubeconfig), { userAgent: 'test' });
  try {
    await makeNode(new HttpClient(transport, 'test'));
  } finally {
    await transport.close();
  }
  const log = { file: join(kubeconfig, '..', 'kwok.log') };
  const flags = {
    kubeconfig,
    'manage-single-node': nodeName,
    // No node Leases: nothing reads them.
    'node-lease-duration-seconds': '0',
  };
  const args = [
    ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
    ...[stages, ...moreStages].map((file) => `--config=${file}`),
  ];
  const kwok = execa(program, args, { reject: false, stdout: log, stderr: log });
  return async () => {
    kwok.kill('SIGTERM');
    await kwok;
  };
}

/**
 * A short grace period speeds up the deletion of namespaces. The namespace controller waits for the grace period,
 * although kwok's pods end at once.
 */
async function makeNode(client: Client): Promise<void> {
  await client.create(Node, { metadata: { name: nodeName } });
  await client.create(MutatingAdmissionPolicy, {
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
  await client.create(MutatingAdmissionPolicyBinding, {
    metadata: { name: nodeName },
    spec: { policyName: nodeName, matchResources: { namespaceSelector: { matchLabels: { [label]: 'true' } } } },
  });
}

/** Creates a namespace whose pods get a node and run. */
export async function namespaceWithNode(cluster: TestCluster): Promise<string> {
  const namespace = await cluster.namespace({ [label]: 'true' });
  await waitUntilNewPodsHave(cluster, namespace, nodeName);
  return namespace;
}

/**
 * New pods of the namespace get the node from now on. Delete a pod that was created before, because it stays pending.
 */
export async function allowScheduling(cluster: Pick<TestCluster, 'client'>, namespace: string): Promise<void> {
  await labelNamespace(cluster, namespace, 'true');
  await waitUntilNewPodsHave(cluster, namespace, nodeName);
}

const labelNamespace = ({ client }: Pick<TestCluster, 'client'>, name: string, value: string | null) =>
  client.patch(Namespace, { name }, { type: 'merge', body: { metadata: { labels: { [label]: value } } } });

/** Waits until new pods get the node. The API server watches policies and labels, so a change applies after a delay. */
async function waitUntilNewPodsHave(
  { client }: Pick<TestCluster, 'client'>,
  namespace: string,
  node: string | undefined,
): Promise<void> {
  const spec = { containers: [{ name: 'c', image: 'example.com/c' }] };
  await eventually(`new pods of ${namespace} have the node ${node}`, async () => {
    const pod = await client.create(Pod, { metadata: { name: 'trial', namespace }, spec }, { dryRun: true });
    return pod.spec?.nodeName === node;
  });
}
