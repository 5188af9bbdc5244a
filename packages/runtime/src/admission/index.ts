/**
 * `@echoperator/runtime/admission`: rules and functions that default and refuse objects before they are stored.
 *
 * Import this entry to declare the admission of a kind (`defineAdmission`), to serve it (`webhooks`, an option of
 * `runOperator`), and to generate its manifests. An operator that does not import it loads none of it.
 * `docs/admission.md` of the repository is the guide.
 */
export type { CertificateTimes } from '../webhook-server/certificate-rotation.ts';
export type { WebhookServerLimits } from '../webhook-server/webhook-server.ts';
export type { WebhookServiceOptions } from '../webhook-server/webhook-service.ts';
export type { WebhookSettings } from '../webhook-server/webhook-settings.ts';
export { MissingPackageError } from '../webhook-server/x509-issuer.ts';
export {
  type AdmissionDefinition,
  type AdmissionError,
  type AdmissionRequest,
  type AdmissionRule,
  type DefinedAdmission,
  defineAdmission,
} from './define-admission.ts';
export {
  type GeneratedManifest,
  mutatingWebhookConfiguration,
  type NamedPolicyRule,
  validatingAdmissionPolicies,
  validatingWebhookConfiguration,
  type WebhookManifestOptions,
  webhookManifests,
  webhookPermissions,
  webhookSecret,
  webhookService,
} from './manifests.ts';
export { type WebhooksOptions, webhooks } from './webhooks.ts';
