/**
 * How two published operators on @kubernetes/client-node watch, and what they do with an event: see
 * docs/ported-operators.md. Both use the operator package @dot-i/k8s-operator or a fork of it. These models have the
 * watches, the order of the calls and the conditions of the originals. Writes are those of the project's client, so
 * that no write is lost.
 */
import type { ObjectOf } from '@echoperator/runtime';
import { type Client, isAlreadyExists, isNotFound } from '@echoperator/runtime/client';
import { Deployment, Secret } from '@echoperator/runtime/kinds';
import { AppsV1Api, type KubeConfig, makeInformer, Watch } from '@kubernetes/client-node';
import { Backend } from '../../../examples/backend/backend.ts';

/** The operator package waits so long after a watch that has ended without an error. */
const restartMs = 200;
/** After an error the operator package ends the process. This is the least time until a new container runs. */
const newProcessMs = 1000;

type OnEvent<T> = (type: string, object: T) => Promise<void>;

/** Watches as the operator package does: without a resourceVersion, and with one event after the other. */
function watchResource<T>(config: KubeConfig, path: string, onEvent: OnEvent<T>): () => void {
  const watch = new Watch(config);
  let isStopped = false;
  let request: AbortController | undefined;
  let timer: NodeJS.Timeout | undefined;
  let queue = Promise.resolve();
  const start = async (): Promise<void> => {
    request = await watch.watch(
      path,
      {},
      (type: string, object: T) => {
        queue = queue.then(() => onEvent(type, object)).catch(() => {});
      },
      (error: unknown) => {
        if (!isStopped) timer = setTimeout(() => void start(), error ? newProcessMs : restartMs);
      },
    );
  };
  void start();
  return () => {
    isStopped = true;
    clearTimeout(timer);
    request?.abort();
  };
}

/** The secrets operator of Akamai App Platform. Returns the function that stops it. */
export const startTeamSecrets = (config: KubeConfig, client: Client): (() => void) =>
  watchResource<Secret>(config, '/api/v1/secrets', async (event, { metadata, type, data = {} }) => {
    if (metadata.namespace?.startsWith('team-') !== true) return;
    if (type !== 'kubernetes.io/dockerconfigjson' && type !== 'kubernetes.io/tls') return;
    const namespace = type === 'kubernetes.io/tls' ? 'istio-system' : 'argocd';
    const key = { namespace, name: `copy-${metadata.namespace}-${metadata.name}` };
    const create = () =>
      client.create(Secret, { metadata: key, type, data }).catch((error) => {
        // At a start of the operator each Secret arrives as ADDED.
        if (!isAlreadyExists(error)) throw error;
      });
    if (event === 'ADDED') await create();
    if (event === 'DELETED') await client.delete(Secret, key).catch(() => {});
    if (event === 'MODIFIED') {
      await client.patch(Secret, key, { type: 'merge', body: { data } }).catch((error) => {
        if (!isNotFound(error)) throw error;
        return create();
      });
    }
  });

type BackendObject = ObjectOf<typeof Backend>;
type Named = { readonly metadata?: { readonly namespace?: string; readonly name?: string } };

async function applyDeployment(client: Client, { metadata, spec }: BackendObject): Promise<void> {
  const key = { namespace: metadata.namespace ?? '', name: metadata.name };
  const replicas = spec.enabled ? spec.replicas : 0;
  const selector = { 'demeter.run/instance': metadata.name };
  const labels = { 'demeter.run/version': 'v1alpha1', 'demeter.run/kind': 'Backend' };
  const containers = [{ name: 'main', image: spec.image }];
  try {
    await client.patch(Deployment, key, { type: 'merge', body: { spec: { replicas } } });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const template = { metadata: { labels: selector }, spec: { containers } };
    await client.create(Deployment, {
      metadata: { ...key, labels },
      spec: { replicas, selector: { matchLabels: selector }, template },
    });
  }
}

/** The Backend controller of Demeter's workloads operator. Returns the function that stops it. */
export function startBackends(config: KubeConfig, client: Client): () => void {
  const patchStatus = (backend: Named, status: object): Promise<unknown> => {
    const { namespace = '', name = '' } = backend.metadata ?? {};
    return client.patch(Backend, { namespace, name }, { type: 'merge', body: { status } }, { subresource: 'status' });
  };
  const stopWatch = watchResource<BackendObject>(
    config,
    '/apis/demeter.run/v1alpha1/backends',
    async (type, backend) => {
      const { metadata, spec, status } = backend;
      const startTime = spec.enabled ? Date.now() : 0;
      const observedGeneration = metadata.generation;
      if (type === 'ADDED') {
        if (!status) await patchStatus(backend, { runningStatus: 'provisioning', observedGeneration, startTime });
        await applyDeployment(client, backend);
      }
      if (type === 'MODIFIED') {
        const isPaused = status?.runningStatus === 'paused';
        if (spec.enabled === isPaused) await patchStatus(backend, { startTime });
        await applyDeployment(client, backend);
        if (status?.observedGeneration !== observedGeneration) await patchStatus(backend, { observedGeneration });
      }
    },
  );
  const selector = 'demeter.run/version=v1alpha1, demeter.run/kind=Backend';
  const api = config.makeApiClient(AppsV1Api);
  const list = () => api.listDeploymentForAllNamespaces({ labelSelector: selector });
  const informer = makeInformer(config, '/apis/apps/v1/deployments', list, selector);
  informer.on('update', (deployment) => {
    const { availableReplicas = 0 } = deployment.status ?? {};
    const wanted = deployment.spec?.replicas ?? 0;
    const runningStatus = wanted === 0 ? 'paused' : availableReplicas === wanted ? 'running' : 'provisioning';
    void patchStatus(deployment, { availableReplicas, runningStatus }).catch(() => {});
  });
  // The original only logs the error, and does not call `start` again.
  informer.on('error', () => {});
  void informer.start();
  return () => {
    stopWatch();
    void informer.stop();
  };
}
