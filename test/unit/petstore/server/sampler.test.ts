import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { InvalidRequestError } from '../../../../packages/petstore/src/server/errors.ts';
import { Sampler } from '../../../../packages/petstore/src/server/sampler.ts';
import {
  type ChangeSamplerReq,
  SamplerSchema,
  SamplerType,
} from '../../../../packages/petstore/src/wire/generated/petstore_pb.js';

const memory = () => {
  const settings = new Map<string, string>();
  return {
    setting: (name: string) => settings.get(name),
    setSetting: (name: string, value: string) => void settings.set(name, value),
  };
};
const told = (type: SamplerType, floatValue = 0) => ({ sampler: create(SamplerSchema, { type, floatValue }) });

describe('the sampler', () => {
  test('samples nothing at first, then as requested, and remembers the request', () => {
    const settings = memory();
    const sampler = new Sampler(settings, () => 0.3);
    expect(sampler.isSampled(null)).toBe(false);
    sampler.change(told(SamplerType.STAlways));
    expect(sampler.isSampled(null)).toBe(true);
    sampler.change(told(SamplerType.STFloat, 0.25));
    expect(sampler.isSampled(null)).toBe(false);
    sampler.change(told(SamplerType.STFloat, 0.31));
    expect(new Sampler(settings, () => 0.3).isSampled(null)).toBe(true);
    sampler.change(told(SamplerType.STNever));
    expect(sampler.isSampled(null)).toBe(false);
  });

  test('judges requests of one trace alike', () => {
    const sampler = new Sampler(memory(), () => 0.999);
    sampler.change(told(SamplerType.STFloat, 0.5));
    const trace = (random: string) => `00-0123456789abcdef012${random}-0123456789abcdef-01`;
    expect(sampler.isSampled(trace('0000000000000'))).toBe(true);
    expect(sampler.isSampled(trace('7ffffffffffff'))).toBe(true);
    expect(sampler.isSampled(trace('8000000000000'))).toBe(false);
    expect(sampler.isSampled('nonsense')).toBe(false);
  });

  test.each<[string, Pick<ChangeSamplerReq, 'sampler'>]>([
    ['no sampler', {}],
    ['STUnknown', told(SamplerType.STUnknown)],
    ['a share of 0', told(SamplerType.STFloat, 0)],
    ['a share above 1', told(SamplerType.STFloat, 1.000001)],
    ['no number', told(SamplerType.STFloat, Number.NaN)],
    ['a type that there is not', told(7 as SamplerType)],
  ])('refuses %s, and stays as it was', (_, request) => {
    const sampler = new Sampler(memory());
    sampler.change(told(SamplerType.STAlways));
    expect(() => sampler.change(request)).toThrow(InvalidRequestError);
    expect(sampler.share).toBe(1);
  });
});
