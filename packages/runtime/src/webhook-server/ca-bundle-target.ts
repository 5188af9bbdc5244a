import {
  CustomResourceDefinition,
  MutatingWebhookConfiguration,
  ValidatingWebhookConfiguration,
} from '../built-in-kinds/built-in-kinds.ts';
import { type Kind, resourceName } from '../kind/kind.ts';
import type { KubeObject, Manifest } from '../kind/object.ts';

/** A cluster-scoped object that tells the API server which authorities it may trust when it calls a webhook. */
export interface CaBundleTarget<T extends KubeObject = KubeObject> {
  readonly kind: Kind<T>;
  readonly name: string;
  /** Returns the `caBundle` of each client configuration of the object, in base64; undefined where it has none. */
  bundlesOf(object: T): readonly (string | undefined)[];
  /** Returns what an apply must contain to set each of them, and nothing else. */
  manifest(object: T, caBundle: string): Manifest<T>;
}

/** The part of both configurations that matters here. */
interface WebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly { readonly name: string; readonly clientConfig: { readonly caBundle?: string } }[];
}

const configurationTarget = (kind: Kind<WebhookConfiguration>, name: string): CaBundleTarget<WebhookConfiguration> => ({
  kind,
  name,
  bundlesOf: ({ webhooks = [] }) => webhooks.map(({ clientConfig }) => clientConfig.caBundle),
  manifest: ({ webhooks = [] }, caBundle) => ({
    metadata: { name },
    webhooks: webhooks.map((webhook) => ({ name: webhook.name, clientConfig: { caBundle } })),
  }),
});

/** Every webhook of a ValidatingWebhookConfiguration. */
export const validatingTarget = (name: string): CaBundleTarget =>
  configurationTarget(ValidatingWebhookConfiguration, name);

/** Every webhook of a MutatingWebhookConfiguration. */
export const mutatingTarget = (name: string): CaBundleTarget => configurationTarget(MutatingWebhookConfiguration, name);

/** The part of a CustomResourceDefinition that matters here. */
interface ConvertedDefinition extends KubeObject {
  readonly spec: {
    readonly conversion?: {
      readonly strategy: string;
      readonly webhook?: { readonly clientConfig?: { readonly caBundle?: string } };
    };
  };
}

/** The conversion webhook of a kind's CustomResourceDefinition; nothing while the definition has none. */
export const conversionTarget = (kind: Kind): CaBundleTarget => {
  const target: CaBundleTarget<ConvertedDefinition> = {
    // The type of the definition's own kind has far more members.
    kind: CustomResourceDefinition as unknown as Kind<ConvertedDefinition>,
    name: resourceName(kind),
    bundlesOf: ({ spec: { conversion } }) =>
      conversion?.strategy === 'Webhook' ? [conversion.webhook?.clientConfig?.caBundle] : [],
    manifest: (_, caBundle) =>
      // An apply needs only the fields that it sets: `strategy` and the Service stay those of the chart.
      ({
        metadata: { name: resourceName(kind) },
        spec: { conversion: { webhook: { clientConfig: { caBundle } } } },
      }) as unknown as Manifest<ConvertedDefinition>,
  };
  return target;
};
