import type { ViewPerturbation, WritePerturbation } from './perturbation-plans.ts';
import type { OutsideWrite } from './perturbation-scenario.ts';

/** What a perturbed write to another system than the API server causes. */
export interface OutsideEffects {
  /** The operator crashes. */
  crash(): void;
  /** Calls `arrive` when the new operator rests. */
  hold(arrive: () => void): void;
  /** The response is there. */
  responded(): void;
  /** The response is lost. */
  responseLost(): void;
}

export const discarded: OutsideWrite = { isForwarded: Promise.resolve(false), respond: () => false };

/** @param perturbation undefined: none */
export function outsideWrite(
  perturbation: WritePerturbation | ViewPerturbation | undefined,
  { crash, hold, responded, responseLost }: OutsideEffects,
): OutsideWrite {
  const sent = (isDelivered: () => boolean): OutsideWrite => ({
    isForwarded: Promise.resolve(true),
    respond: () => {
      responded();
      return isDelivered();
    },
  });
  switch (perturbation) {
    case 'unsent':
      crash();
      return discarded;
    case 'late': {
      crash();
      const { promise, resolve } = Promise.withResolvers<boolean>();
      hold(() => resolve(true));
      return { ...sent(() => false), isForwarded: promise };
    }
    case 'reply-lost':
      return sent(() => {
        crash();
        return false;
      });
    case 'replied':
    case 'past':
      return sent(() => {
        // When the proxy has delivered the response.
        setImmediate(crash);
        return true;
      });
    case 'retried':
    case 'stale':
      return sent(() => {
        responseLost();
        return false;
      });
    default:
      return sent(() => true);
  }
}
