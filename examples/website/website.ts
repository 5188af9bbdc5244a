/**
 * An operator for websites: each Website has a ConfigMap with its page, a Deployment that serves it, a Service and an
 * Ingress. Its WebsiteClass, cluster-scoped, tells the image and the DNS service, which gets the website's name over
 * HTTP.
 *
 *     node website.ts crds     prints the CustomResourceDefinitions
 *     node website.ts role     prints its ClusterRole
 *     node website.ts          runs
 */
import {
  child,
  cleanedUp,
  customResourceDefinitions,
  defineController,
  defineKind,
  type ObjectOf,
  permissions,
  runOperator,
} from '@echoperator/runtime';
import { ConfigMap, Deployment, Ingress, Service } from '@echoperator/runtime/kinds';
import Type from 'typebox';

const group = 'sites.example.com';
const validations = [
  {
    rule: "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
    message: 'metadata.name: takes the name of a Service',
  },
];

export const WebsiteClass = defineKind({
  group,
  version: 'v1',
  kind: 'WebsiteClass',
  plural: 'websiteclasses',
  scope: 'Cluster',
  description: 'WebsiteClass is what several Websites have in common.',
  spec: Type.Object({
    image: Type.String({ maxLength: 255, description: 'The image of the web server. It serves /pages.' }),
    dnsUrl: Type.String({ maxLength: 255, pattern: '^https?://', description: 'The URL of the DNS service.' }),
  }),
  status: Type.Object({}),
  printerColumns: [{ name: 'Image', type: 'string', jsonPath: '.spec.image' }],
});

export const Website = defineKind({
  group,
  version: 'v1',
  kind: 'Website',
  plural: 'websites',
  description: 'Website serves a page under a name.',
  spec: Type.Object({
    class: Type.String({ maxLength: 253, description: 'The name of a WebsiteClass.' }),
    host: Type.String({ maxLength: 253, pattern: '^[a-z0-9.-]+$', description: 'The DNS name of the website.' }),
    page: Type.String({ maxLength: 100_000, description: 'The page, in HTML.' }),
    replicas: Type.With(Type.Integer({ minimum: 0, maximum: 100, description: 'The number of web servers.' }), {
      default: 1,
    }),
  }),
  status: Type.Object({
    url: Type.String({ description: 'Where the page is served.' }),
    dnsUrl: Type.String({ description: 'The DNS service that has the name.' }),
    readyReplicas: Type.Integer({ description: 'The web servers that are ready.' }),
  }),
  validations,
  printerColumns: [
    { name: 'URL', type: 'string', jsonPath: '.status.url' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
  ],
});
type Website = ObjectOf<typeof Website>;

/** What the DNS service answers instead of what was asked of it. */
class DnsError extends Error {
  override readonly name = 'DnsError';
}

/** Sets or removes the name of a website. Both are idempotent. */
async function callDns(dnsUrl: string, method: 'PUT' | 'DELETE', { metadata, spec }: Website, signal: AbortSignal) {
  const body = method === 'PUT' ? JSON.stringify({ service: `${metadata.name}.${metadata.namespace}` }) : null;
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(5000)]);
  try {
    const { status } = await fetch(`${dnsUrl}/names/${spec.host}`, { method, body, signal: inTime });
    if (status >= 400 && !(method === 'DELETE' && status === 404)) throw new DnsError(`responds with ${status}`);
  } catch (cause) {
    throw cause instanceof DnsError ? cause : new DnsError('does not answer', { cause });
  }
}

function childrenOf({ metadata, spec }: Website, image: string) {
  const labels = { app: metadata.name };
  const volumes = [{ name: 'pages', configMap: { name: metadata.name } }];
  const containers = [{ name: 'server', image, volumeMounts: [{ name: 'pages', mountPath: '/pages' }] }];
  const backend = { service: { name: metadata.name, port: { number: 80 } } };
  const paths = [{ path: '/', pathType: 'Prefix', backend }];
  return [
    child(ConfigMap, { data: { 'index.html': spec.page } }),
    child(Service, { spec: { selector: labels, ports: [{ port: 80, targetPort: 8080 }] } }),
    child(Ingress, { spec: { rules: [{ host: spec.host, http: { paths } }] } }),
    child(Deployment, {
      spec: {
        replicas: spec.replicas,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers, volumes } },
      },
    }),
  ] as const;
}

export const websites = defineController(Website, {
  owns: [ConfigMap, Deployment, Service, Ingress],
  refersTo: [{ kind: WebsiteClass, keys: (website) => [website.spec.class] }],
  reasons: {
    Serving: { ready: 'True', event: 'Normal', meaning: 'All web servers are ready.' },
    Starting: { ready: 'False', event: 'Normal', meaning: 'Some web servers are not ready.' },
    ClassMissing: { ready: 'False', event: 'Warning', meaning: 'There is no WebsiteClass of this name.' },
    DnsFailed: { ready: 'False', event: 'Warning', meaning: 'The DNS service does not do what it is asked. Retried.' },
  },
  observe: (website, { get }) => ({
    status: { readyReplicas: get(Deployment, website.metadata.name)?.status?.readyReplicas ?? 0 },
  }),
  reconcile: async (website, { applyAll, get, signal, writeStatus }) => {
    const { class: className, host, replicas } = website.spec;
    const spec = get(WebsiteClass, className)?.spec;
    if (spec === undefined) return { reason: 'ClassMissing', message: `WebsiteClass ${className} does not exist` };
    const [, , , deployment] = await applyAll(childrenOf(website, spec.image));
    // Before the call, so that the cleanup finds the service even if the class is gone.
    if (website.status?.dnsUrl !== spec.dnsUrl) await writeStatus({ dnsUrl: spec.dnsUrl });
    await callDns(spec.dnsUrl, 'PUT', website, signal);
    const { readyReplicas = 0, observedGeneration } = deployment.status ?? {};
    const isServing = readyReplicas === replicas && observedGeneration === deployment.metadata.generation;
    return {
      reason: isServing ? 'Serving' : 'Starting',
      message: `${readyReplicas} of ${replicas} web servers are ready`,
      status: { url: `http://${host}`, readyReplicas },
    };
  },
  failed: (error) =>
    error instanceof DnsError ? { reason: 'DnsFailed', message: `the DNS service ${error.message}`, error } : undefined,
  finalizer: {
    name: `${group}/dns`,
    cleanUp: async (website, { signal }) => {
      const dnsUrl = website.status?.dnsUrl;
      if (dnsUrl !== undefined) await callDns(dnsUrl, 'DELETE', website, signal);
      return cleanedUp;
    },
  },
});

const name = 'websites';
const clusterRole = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name } };

// False when a test imports this file.
if (import.meta.main) {
  const [, , command] = process.argv;
  const definitions = customResourceDefinitions([websites, { kind: WebsiteClass }]);
  if (command === 'crds') for (const definition of definitions) console.log(JSON.stringify(definition));
  else if (command === 'role') console.log(JSON.stringify({ ...clusterRole, rules: permissions([websites]) }));
  else await runOperator(process, { name, controllers: [websites], leaderElection: name, port: 8080 });
}
