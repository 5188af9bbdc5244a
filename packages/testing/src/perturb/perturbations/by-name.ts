import { CutOff } from './cut-off.ts';
import { Lagging } from './lagging.ts';
import { Late } from './late.ts';
import { Missed } from './missed.ts';
import { Overtaken } from './overtaken.ts';
import { Past } from './past.ts';
import type { ViewPerturbationClass, WritePerturbationClass } from './perturbation.ts';
import { Replied } from './replied.ts';
import { ReplyLost } from './reply-lost.ts';
import { Retried } from './retried.ts';
import { Stale } from './stale.ts';
import { Stopped } from './stopped.ts';
import { Unsent } from './unsent.ts';

/** What happens at a write. The classes describe it. */
export type WritePerturbation =
  | 'unsent'
  | 'reply-lost'
  | 'replied'
  | 'past'
  | 'late'
  | 'stopped'
  | 'cut-off'
  | 'retried'
  | 'stale'
  | 'overtaken';

/** What happens to the operator's view of a kind in a step. The classes describe it. */
export type ViewPerturbation = 'lagging' | 'missed';

/** By name, in the order of their plans. */
export const writePerturbations: Readonly<Record<WritePerturbation, WritePerturbationClass>> = {
  unsent: Unsent,
  'reply-lost': ReplyLost,
  replied: Replied,
  past: Past,
  late: Late,
  stopped: Stopped,
  'cut-off': CutOff,
  retried: Retried,
  stale: Stale,
  overtaken: Overtaken,
};

/** By name, in the order of their plans. */
export const viewPerturbations: Readonly<Record<ViewPerturbation, ViewPerturbationClass>> = {
  lagging: Lagging,
  missed: Missed,
};
