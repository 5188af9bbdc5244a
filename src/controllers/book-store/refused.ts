import { BookStore } from '../../api/index.ts';
import { type ApiError, controllerOf, type Kind, type KubeObject } from '../../runtime/index.ts';
import type { Service } from '../built-in-kinds.ts';
import { wordsOf } from '../refusal.ts';
import type { PartFinding } from './book-store-status.ts';

/** The API server will not have a child; its words say which and why. */
export const refused = (error: ApiError): PartFinding => ({
  reason: 'Refused',
  message: wordsOf(error),
});

/** Ours, on its way out. */
export const replacingService = ({ metadata }: Service): PartFinding => ({
  reason: 'Replacing',
  message: `Service ${metadata.name} is being deleted, and made again when it is gone`,
});

/**
 * A name is somebody else's; what to do about it. What is left of a BookStore of this name before goes by itself.
 *
 * @param kind of the holder: a store's objects do not say.
 */
export function nameTaken(store: BookStore, kind: Kind, holder: KubeObject, advice: string): PartFinding {
  const { name } = holder.metadata;
  const controller = controllerOf(holder);
  if (controller?.kind === BookStore.kind && controller.name === store.metadata.name) {
    const message = `${kind.kind} ${name} is still that of the BookStore of this name before, and goes with it`;
    return { reason: 'Replacing', message };
  }
  return {
    reason: 'NameTaken',
    message: `a ${kind.kind} named ${name} exists and is not this BookStore's: ${advice}`,
  };
}
