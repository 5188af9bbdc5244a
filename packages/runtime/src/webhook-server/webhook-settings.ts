/** What the manifests of webhooks and the running operator must agree on. */
export interface WebhookSettings {
  /**
   * The operator's name. It is the name of the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration,
   * which are cluster-scoped, so it must be unique in the cluster. A DNS subdomain.
   */
  readonly name: string;
  /** The Service that selects the operator's pods. Default: the name and `-webhooks`. */
  readonly serviceName?: string;
  /** Default: the name and `-webhook-certificates`. */
  readonly secretName?: string;
  /** The port on which the operator serves webhooks. Default 9443. */
  readonly port?: number;
}

export const defaultWebhookPort = 9443;

export const serviceNameOf = ({ name, serviceName = `${name}-webhooks` }: WebhookSettings): string => serviceName;

export const secretNameOf = ({ name, secretName = `${name}-webhook-certificates` }: WebhookSettings): string =>
  secretName;

/** The field manager of every `caBundle`. */
export const bundleManagerOf = ({ name }: WebhookSettings): string => `${name}-webhook-certificates`;
