import { conversionHandlers } from '../conversion/conversion-handlers.ts';
import { needsConversion } from '../conversion/versions.ts';
import type { CustomKind } from '../kind/define-kind.ts';
import type { OperatorService } from '../process/operator-service.ts';
import { conversionTarget, mutatingTarget, validatingTarget } from '../webhook-server/ca-bundle-target.ts';
import { createWebhookService, type WebhookServiceOptions } from '../webhook-server/webhook-service.ts';
import { admissionHandlers } from './admission-handlers.ts';
import type { DefinedAdmission } from './define-admission.ts';

/** Options of {@link webhooks}. */
export interface WebhooksOptions extends WebhookServiceOptions {
  /** Default: none. */
  readonly admissions?: readonly DefinedAdmission[];
  /** The kinds whose versions are converted, as `withVersion` returns them. Others are ignored. Default: none. */
  readonly kinds?: readonly CustomKind[];
}

/**
 * The webhooks of an operator, for `runOperator`. Every replica serves them, leader or not, and is ready only while it
 * has a valid certificate. The leader creates and renews the certificates, and writes their authorities into the
 * configurations and the CustomResourceDefinitions of `kinds`. It needs the rights of `webhookPermissions`, and the packages `@peculiar/x509` and `reflect-metadata`
 * unless the certificates are provided.
 *
 * When the process is asked to stop, it is not ready, serves for `stopDelayMs`, and then ends the requests in flight.
 *
 * @example
 * const webhookSettings = { name: 'greeter', admissions: [greetingAdmission] };
 * await runOperator(process, { name: 'greeter', controllers: [greetings], webhooks: webhooks(webhookSettings) });
 */
export function webhooks(options: WebhooksOptions): OperatorService {
  const { admissions = [], kinds = [], name } = options;
  const converted = kinds.filter(needsConversion);
  const handlers = new Map([...admissionHandlers(admissions), ...conversionHandlers(converted)]);
  return createWebhookService(options, handlers, [
    ...(admissions.some(({ definition }) => definition.validate !== undefined) ? [validatingTarget(name)] : []),
    ...(admissions.some(({ definition }) => definition.defaults !== undefined) ? [mutatingTarget(name)] : []),
    ...converted.map(conversionTarget),
  ]);
}
