import { conversionPath } from '../kind/custom-resource-definition.ts';
import type { CustomKind } from '../kind/define-kind.ts';
import type { WebhookHandler } from '../webhook-server/webhook-server.ts';
import { conversionReview } from './conversion-review.ts';

/** Returns the handler that converts these kinds, by its path. Empty without kinds. */
export const conversionHandlers = (kinds: readonly CustomKind[]): ReadonlyMap<string, WebhookHandler> =>
  new Map(kinds.length === 0 ? [] : [[conversionPath, async (body) => conversionReview(kinds, body)]]);
