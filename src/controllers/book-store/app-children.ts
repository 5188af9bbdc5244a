import { BookStore } from '../../api/index.ts';
import { controllerReference, type Manifest } from '../../runtime/index.ts';
import type { Deployment, Service } from '../built-in-kinds.ts';
import { appServiceKey, deploymentKey, objectLabels, selectorLabels } from './names.ts';
import { readyWhenListening } from './readiness.ts';
import type { Settings } from './settings.ts';

/** On the Deployment while its replicas are the BookStore's: whoever gives them up can see that they were. */
export const replicasAnnotation = 'blog.velotio.com/replicas';

/** The Deployment that runs the app. */
export function deploymentOf(store: BookStore, { app }: Settings): Manifest<Deployment> {
  const { container, replicas, targetPort } = app;
  return {
    metadata: {
      ...deploymentKey(store),
      labels: objectLabels(store, 'app'),
      ...(replicas !== undefined && { annotations: { [replicasAnnotation]: String(replicas) } }),
      ownerReferences: [controllerReference(BookStore, store)],
    },
    spec: {
      ...(replicas !== undefined && { replicas }),
      selector: { matchLabels: selectorLabels(store, 'app') },
      template: {
        metadata: { labels: objectLabels(store, 'app') },
        spec: {
          containers: [
            {
              name: 'app',
              ...container,
              ports: [{ name: 'http', containerPort: targetPort }],
              readinessProbe: readyWhenListening(targetPort),
            },
          ],
        },
      },
    },
  };
}

/** The Service by which the app is reached. */
export function appServiceOf(store: BookStore, { app }: Settings): Manifest<Service> {
  const { port, targetPort, serviceType } = app;
  return {
    metadata: {
      ...appServiceKey(store),
      labels: objectLabels(store, 'app'),
      ownerReferences: [controllerReference(BookStore, store)],
    },
    spec: {
      type: serviceType,
      selector: selectorLabels(store, 'app'),
      ports: [{ name: 'http', protocol: 'TCP', port, targetPort }],
    },
  };
}
