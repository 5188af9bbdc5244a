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

const ofWrites = {
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

const ofViews = { lagging: Lagging, missed: Missed };

/** What happens at a write. The classes describe it. */
export type WritePerturbation = keyof typeof ofWrites;

/** What happens to the operator's view of a kind in a step. The classes describe it. */
export type ViewPerturbation = keyof typeof ofViews;

/** By name, in the order of their plans. */
export const writePerturbations: Readonly<Record<WritePerturbation, WritePerturbationClass>> = ofWrites;

/** By name, in the order of their plans. */
export const viewPerturbations: Readonly<Record<ViewPerturbation, ViewPerturbationClass>> = ofViews;
