/** Values that the specs of several kinds may have. */

/** Too long for the key of a label or an annotation. */
export const longKey = 'k'.repeat(400);

/** @param part of the spec, with the dot after it. */
export const valuesOfPodMetadata = (part: string) => ({
  [`${part}podMetadata`]: [{ labels: { tier: 'web' }, annotations: { note: 'a' } }, {}, 'a text'],
  [`${part}podMetadata.labels`]: [
    { 'sidecar.istio.io/inject': 'false' },
    {},
    { 'app.kubernetes.io/name': 'other' },
    { 'job-name': 'other' },
    { tier: 'no value / 世界' },
    { [longKey]: 'x' },
    'a text',
  ],
  [`${part}podMetadata.annotations`]: [{ note: 'a' }, {}, { [longKey]: 'x' }, 'a text'],
});
