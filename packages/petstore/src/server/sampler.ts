import { type ChangeSamplerReq, SamplerType } from '../wire/generated/petstore_pb.js';
import { InvalidRequestError } from './errors.ts';
import type { PetDatabase } from './pet-database.ts';

/** The key of the setting in the database. */
const settingName = 'sampler';

/**
 * The last 14 hexadecimal digits of a trace id are random (https://www.w3.org/TR/trace-context-2/). A number can
 * represent 13 of them exactly.
 */
const randomDigits = 13;

/**
 * Decides which requests are traced. The traced share is from 0 (the default) to 1 and survives restarts.
 *
 * A request with a trace id (`traceparent`, https://www.w3.org/TR/trace-context/) is sampled by that id, so that a
 * trace is sampled either completely or not at all. Other requests are sampled at random.
 */
export class Sampler {
  readonly #database: Pick<PetDatabase, 'setting' | 'setSetting'>;
  readonly #random: () => number;
  #share: number;

  constructor(database: Pick<PetDatabase, 'setting' | 'setSetting'>, random: () => number = Math.random) {
    this.#database = database;
    this.#random = random;
    this.#share = Number(database.setting(settingName) ?? 0);
  }

  /** The share of requests that are traced, 0 to 1. */
  get share(): number {
    return this.#share;
  }

  /** @throws InvalidRequestError for a missing sampler, an unknown type, and a share outside of 0 to 1. */
  change({ sampler }: Pick<ChangeSamplerReq, 'sampler'>): void {
    const share = shareOf(sampler);
    this.#database.setSetting(settingName, String(share));
    this.#share = share;
  }

  /** Whether to trace a request with this `traceparent` header. */
  isSampled(traceparent: string | null): boolean {
    const [, traceId] = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent ?? '') ?? [];
    const chance =
      traceId === undefined ? this.#random() : Number.parseInt(traceId.slice(-randomDigits), 16) / 16 ** randomDigits;
    return chance < this.#share;
  }
}

function shareOf(sampler: ChangeSamplerReq['sampler']): number {
  switch (sampler?.type) {
    case SamplerType.STNever:
      return 0;
    case SamplerType.STAlways:
      return 1;
    case SamplerType.STFloat:
      if (sampler.floatValue > 0 && sampler.floatValue <= 1) return sampler.floatValue;
      throw new InvalidRequestError(
        `sampler.float_value: got ${sampler.floatValue}, takes a number above 0 and at most 1`,
      );
    default:
      throw new InvalidRequestError('sampler.type: takes STNever, STAlways or STFloat');
  }
}
