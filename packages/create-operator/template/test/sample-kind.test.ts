/** Unit tests in a simulated cluster: `npm test`. They need no cluster and no network, and take milliseconds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { simulate } from '@echoperator/testing/simulation';
import { controllers } from '../src/main.ts';
import { SampleKind } from '../src/sample-kind.ts';

const key = { namespace: 'default', name: 'hello' };

test('writes the text into a ConfigMap, and reports it in the status', async () => {
  await simulate({ controllers }, async (simulation) => {
    await simulation.client.create(SampleKind, { metadata: key, spec: { text: 'Hello, world!' } });
    await simulation.settle();
    assert.equal(simulation.objects(ConfigMap)[0]?.data?.text, 'Hello, world!');
    const [object] = simulation.objects(SampleKind);
    assert.equal(object?.status?.configMap, 'hello');
    assert.equal(object?.status?.conditions?.[0]?.reason, 'Written');
  });
});

test('restores the ConfigMap after somebody deletes it', async () => {
  await simulate({ controllers }, async (simulation) => {
    await simulation.client.create(SampleKind, { metadata: key, spec: { text: 'Hello, world!' } });
    await simulation.settle();
    await simulation.client.delete(ConfigMap, key);
    await simulation.settle();
    assert.equal(simulation.objects(ConfigMap)[0]?.data?.text, 'Hello, world!');
  });
});
