import { type BuiltName, operatorNames } from './operators.ts';
import { minutesOf, type PartName, partNames, parts } from './parts.ts';

/** The parsed arguments of the bench. */
export type Command =
  | { readonly of: 'help' }
  | { readonly of: 'parts'; readonly parts: readonly PartName[]; readonly names: readonly BuiltName[] }
  /** Two bundles of our operator, each a git revision or a folder with sources. */
  | { readonly of: 'bundles'; readonly before: string; readonly after: string };

/** The arguments are invalid. The message quotes them. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export const usage = `Compares the operator with peers that do the same work, on one machine:

    node bench/main.ts                       every part: about ${minutesOf(partNames)} minutes on two cores, once the peers are built
    node bench/main.ts PART...               only these parts; keeps the results of the others
${partNames.map((name) => `        ${name.padEnd(10)} about ${String(parts[name].minutes).padStart(2)} minutes: ${parts[name].title}`).join('\n')}
    node bench/main.ts [PART...] OPERATOR... only our operator and these: ${operatorNames.slice(1).join(', ')}
    node bench/main.ts bundles BEFORE AFTER  two versions of our operator in turn, each a git revision or a folder with sources:
                                             about 10 minutes
    QUICK=1 node bench/main.ts ...           less of everything: every part within 5 minutes

Prints tables and writes a page with plots and all figures: to docs/ if all operators take part and the plan is at least the usual one,
otherwise to dist/bench/. BENCH_RESULTS names another folder.
Exits with 0 on success, 1 if a measurement failed, 2 for invalid settings, 128 + n after signal n.`;

/** @throws UsageError */
export function commandOf(args: readonly string[]): Command {
  if (args.includes('--help')) return { of: 'help' };
  const [first, before, after] = args;
  if (first === 'bundles' && before !== undefined && after !== undefined && args.length === 3) {
    return { of: 'bundles', before, after };
  }
  if (!args.every((arg) => isIn(partNames, arg) || isIn(operatorNames, arg))) {
    throw new UsageError(
      `got "${args.join(' ')}", takes parts (${partNames.join(', ')}), operators (${operatorNames.join(', ')}), or "bundles BEFORE AFTER"`,
    );
  }
  const named = <T extends string>(all: readonly T[]): readonly T[] =>
    args.some((arg) => isIn(all, arg)) ? all.filter((name) => args.includes(name)) : all;
  const peers = named(operatorNames);
  const names = operatorNames.filter((name) => name === 'echoperator' || peers.includes(name));
  return { of: 'parts', parts: named(partNames), names };
}

const isIn = (names: readonly string[], name: string): boolean => names.includes(name);
