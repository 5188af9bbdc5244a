import { expect, test } from '@jest/globals';
import { newPod, podNames, templateHash } from '../../../../src/kinds/pod-set/pod.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { podSetOf } from './pod-sets.ts';

const spec = { containers: [{ name: 'c', image: 'busybox:1.36' }] };
const hashOf = (template: NonNullable<ReturnType<typeof podSetOf>['spec']['template']>): string =>
  templateHash(podSetOf({ spec: { template } }));

test('different templates have different hashes, and equal templates the same', () => {
  expect(hashOf({ spec })).toBe(hashOf({ spec, metadata: { labels: {}, annotations: {} } }));
  expect(hashOf({ spec })).not.toBe(hashOf({ spec, metadata: { labels: { a: 'b' } } }));
  expect(hashOf({ spec, metadata: { annotations: { a: 'b' } } })).not.toBe(
    hashOf({ spec, metadata: { labels: { a: 'b' } } }),
  );
});

// An operator whose default pod is another must not roll every PodSet that has none of its own.
test('the hash without a template does not depend on the default pod', () => {
  expect(templateHash(podSetOf())).toBe('default');
});

test('the default pod fits restricted namespaces and quotas on CPU and memory', () => {
  const pod = newPod(podSetOf(), 'default', 'web-pod-1', { ...podSettings, image: 'registry.example/busybox:1' }).spec;
  const [container] = pod?.containers ?? [];
  expect(container).toMatchObject({ image: 'registry.example/busybox:1', command: ['sleep', '3600'] });
  expect(pod).toMatchObject({
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  });
  expect(container?.securityContext).toMatchObject({
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
  });
  for (const amounts of [container?.resources?.requests, container?.resources?.limits]) {
    expect(Object.keys(amounts ?? {}).sort()).toEqual(['cpu', 'memory']);
  }
});

test('names are free names that were tried before, and new ones', () => {
  const names = podNames(podSetOf(), 3, ['web-pod-taken', 'web-pod-tried'], (name) => name === 'web-pod-taken');
  expect(names).toHaveLength(3);
  expect(names[0]).toBe('web-pod-tried');
  expect(names).not.toContain('web-pod-taken');
  for (const name of names.slice(1)) expect(name).toMatch(/^web-pod-[0-9a-f]{5}$/);
});

test('a long name is shortened', () => {
  const [name = ''] = podNames(podSetOf({ metadata: { name: 'x'.repeat(253) } }), 1, [], () => false);
  // With a namespace of 63 characters and a uid, the name of the folder of its logs has at most 255.
  expect(`${'n'.repeat(63)}_${name}_${'u'.repeat(36)}`.length).toBeLessThanOrEqual(255);
  expect(name).toMatch(/^x+-[0-9a-f]{10}-pod-[0-9a-f]{5}$/);
});
