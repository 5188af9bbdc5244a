import { parseArgs } from 'node:util';
import type { Logger } from '@echoperator/runtime';
import {
  type ChangeType,
  changeTypes,
  countChanges,
  defaultChangeTypes,
  formatPlan,
  PlanError,
  type PlanSelection,
  planOperator,
} from '@echoperator/runtime/plan';
import { printableLines } from '@echoperator/runtime/process';
import type { Config } from '../config.ts';
import { addControllers, kinds } from '../operator.ts';
import { fieldManager } from '../runner.ts';

/** The arguments of `plan` are wrong. */
export class PlanUsageError extends Error {
  override readonly name = 'PlanUsageError';
}

/** What {@link planCommand} needs. */
export interface PlanCommandOptions {
  readonly config: Config;
  readonly environment: NodeJS.ProcessEnv;
  readonly log: Logger;
  readonly userAgent: string;
  readonly signal: AbortSignal;
}

/**
 * Plans what this version would do with the objects of the cluster, with the settings of the operator.
 *
 * @param args `-n shop --kind echo --fail-on delete,replace --json`
 * @returns the text to print, and whether the plan has a change of the types that `--fail-on` names.
 * @throws PlanUsageError; the errors of {@link planOperator}.
 */
export async function planCommand(
  args: readonly string[],
  { config, environment, log, userAgent, signal }: PlanCommandOptions,
): Promise<{ readonly text: string; readonly hasChanges: boolean }> {
  const { select, json, failOn, requestsPerSecond } = parse(args, config);
  const plan = await planOperator(
    {
      name: fieldManager,
      environment,
      kubeconfigPath: config.kubeconfig,
      log,
      userAgent,
      select,
      signal,
      ...(requestsPerSecond !== undefined && { requestsPerSecond }),
    },
    (operator) => addControllers(operator, config),
  ).catch((cause: unknown) => {
    throw signal.aborted ? new PlanError('plan: stopped by a signal', { cause }) : cause;
  });
  const text = json ? `${printableLines(JSON.stringify(plan, undefined, 2))}\n` : formatPlan(plan);
  return { text, hasChanges: countChanges(plan, failOn) > 0 };
}

interface PlanArguments {
  readonly select: PlanSelection;
  readonly json: boolean;
  readonly failOn: readonly ChangeType[];
  readonly requestsPerSecond: number | undefined;
}

function parse(args: readonly string[], config: Config): PlanArguments {
  const { namespace: namespaces, kind, json, ...values } = parsed(args);
  for (const name of kind ?? []) requireKind(name);
  for (const name of namespaces ?? []) requireNamespace(name, config);
  return {
    select: { namespaces, kinds: kind },
    json,
    failOn: changeTypesOf(values['fail-on']),
    requestsPerSecond: rateOf(values['requests-per-second']),
  };
}

function requireKind(name: string): void {
  const names = kinds.map(({ kind }) => kind.toLowerCase());
  const isKnown = kinds.some(({ kind, plural }) => [kind.toLowerCase(), plural].includes(name.toLowerCase()));
  if (!isKnown) throw new PlanUsageError(`plan: --kind: got ${name}, takes one of ${names.join(', ')}`);
}

/**
 * Otherwise the plan of an empty variable, or of a namespace that the operator does not watch, would have no change.
 */
function requireNamespace(name: string, { watchNamespaces }: Config): void {
  if (watchNamespaces?.includes(name) ?? name !== '') return;
  const takes =
    watchNamespaces === undefined ? 'a namespace' : `one of WATCH_NAMESPACES: ${watchNamespaces.join(', ')}`;
  throw new PlanUsageError(`plan: --namespace: got ${name || 'nothing'}, takes ${takes}`);
}

function changeTypesOf(text: string | undefined): readonly ChangeType[] {
  if (text === undefined) return defaultChangeTypes;
  if (text === 'never') return [];
  return text.split(',').map((name) => {
    const type = changeTypes.find((known) => known === name);
    if (type !== undefined) return type;
    throw new PlanUsageError(`plan: --fail-on: got ${name || 'nothing'}, takes never, or ${changeTypes.join(', ')}`);
  });
}

function rateOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const rate = Number(text);
  if (rate > 0 && Number.isFinite(rate)) return rate;
  throw new PlanUsageError(`plan: --requests-per-second: got ${text || 'nothing'}, takes a number above 0, as 200`);
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        namespace: { type: 'string', short: 'n', multiple: true },
        kind: { type: 'string', multiple: true },
        json: { type: 'boolean', default: false },
        'fail-on': { type: 'string' },
        'requests-per-second': { type: 'string' },
      },
    }).values;
  } catch (cause) {
    const [problem] = (cause as TypeError).message.split('. ');
    throw new PlanUsageError(`plan: ${problem}`, { cause });
  }
}
