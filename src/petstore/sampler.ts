import { type ChangeSamplerReq, SamplerType } from '../petstore-wire/index.ts';
import { InvalidRequestError } from './errors.ts';
import type { PetDatabase } from './pet-database.ts';

/** Under which the setting is kept. */
const settingName = 'sampler';

/** Of a trace id the last 14 hexadecimal digits are random (https://www.w3.org/TR/trace-context-2/); a number holds 13 of them. */
const randomDigits = 13;

/**
 * Says which requests are traced: a share of them from 0 to 1, none at first. What it is told it keeps, over restarts too.
 *
 * A request that carries a trace id (`traceparent`, https://www.w3.org/TR/trace-context/) is judged by that, so that of one
 * trace all requests are traced or none; others by chance.
 */
export class Sampler {
  readonly #database: Pick<PetDatabase, 'setting' | 'keepSetting'>;
  readonly #random: () => number;
  #share: number;

  constructor(database: Pick<PetDatabase, 'setting' | 'keepSetting'>, random: () => number = Math.random) {
    this.#database = database;
    this.#random = random;
    this.#share = Number(database.setting(settingName) ?? 0);
  }

  /** The share of the requests that are traced. */
  get share(): number {
    return this.#share;
  }

  /** @throws InvalidRequestError for no sampler, a type that there is not, and a share that is none. */
  change({ sampler }: Pick<ChangeSamplerReq, 'sampler'>): void {
    const share = shareOf(sampler);
    this.#database.keepSetting(settingName, String(share));
    this.#share = share;
  }

  /** Whether a request with this header is traced. */
  samples(traceparent: string | null): boolean {
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
        `sampler.float_value: got ${sampler.floatValue}, takes a number above 0, 1 at most`,
      );
    default:
      throw new InvalidRequestError('sampler.type: takes STNever, STAlways or STFloat');
  }
}
