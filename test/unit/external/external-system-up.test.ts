import { expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { Circuit } from '../../../src/external/circuit.ts';
import { externalSystemUp } from '../../../src/external/external-system-up.ts';

const up = async (registry: Registry): Promise<string[]> =>
  (await registry.metrics()).split('\n').filter((line) => line.startsWith('echoperator_external_system_up{'));

test('a system is down while its circuit is open and an object waits for it', async () => {
  const registry = new Registry();
  const circuit = new Circuit({ system: 'it', reasonOf: () => 'Down', isResponse: () => false });
  let waiting = 0;
  externalSystemUp(registry, 'postgres', { isDown: () => circuit.isOpen, isAwaited: () => waiting > 0 });
  expect(await up(registry)).toEqual(['echoperator_external_system_up{system="postgres"} 1']);
  await expect(circuit.call(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
  waiting = 1;
  expect(await up(registry)).toEqual(['echoperator_external_system_up{system="postgres"} 0']);
  // Nobody is left that would find out when the outage ends.
  waiting = 0;
  expect(circuit.isOpen).toBe(true);
  expect(await up(registry)).toEqual(['echoperator_external_system_up{system="postgres"} 1']);
});

test('the label has the values of the systems only, each with its own state', async () => {
  const registry = new Registry();
  externalSystemUp(registry, 'postgres', { isDown: () => true, isAwaited: () => true });
  externalSystemUp(registry, 'petstore', { isDown: () => false, isAwaited: () => true });
  expect(await up(registry)).toEqual([
    'echoperator_external_system_up{system="postgres"} 0',
    'echoperator_external_system_up{system="petstore"} 1',
  ]);
});
