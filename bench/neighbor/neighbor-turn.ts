import type { Operator } from '../operators.ts';
import type { Turn } from '../results.ts';
import type { RunContext } from '../turns.ts';
import { Tenants } from './tenants.ts';

/** Measures how long a tenant's single Echos wait for their Jobs while another tenant creates many at once. */
export async function neighborTurn(operator: Operator, context: RunContext): Promise<Turn> {
  const { turn } = await Tenants.measure(operator, context, {}, async (tenants) => {
    const create = () => tenants.createBusy(context.plan.neighborObjects);
    const [, waits] = await tenants.quietWhile(create, ['neighborP50', 'neighborP99']);
    return waits;
  });
  return turn;
}
