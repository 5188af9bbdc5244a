import { type BuiltName, operatorNames } from './operators.ts';

/** The parsed arguments of the bench. */
export type Command =
  | { readonly of: 'operators'; readonly names: readonly BuiltName[] }
  /** Only the kinds with an external system. */
  | { readonly of: 'outside' }
  /** Two bundles of our operator, each a git revision or a folder with sources. */
  | { readonly of: 'bundles'; readonly before: string; readonly after: string };

/** The arguments are invalid. The message quotes them. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** @throws UsageError */
export function commandOf(args: readonly string[]): Command {
  const [first, before, after] = args;
  if (first === 'outside' && args.length === 1) return { of: 'outside' };
  if (first === 'bundles' && before !== undefined && after !== undefined && args.length === 3) {
    return { of: 'bundles', before, after };
  }
  if (!args.every(isOperator)) {
    throw new UsageError(
      `got "${args.join(' ')}", takes operators (${operatorNames.join(', ')}), "outside", or "bundles BEFORE AFTER"`,
    );
  }
  const isNamed = (name: BuiltName): boolean => args.length === 0 || name === 'echoperator' || args.includes(name);
  return { of: 'operators', names: operatorNames.filter(isNamed) };
}

/** Returns whether a run of the command may be published. */
export const isOfAll = (command: Command): boolean =>
  command.of === 'outside' ||
  (command.of === 'operators' && operatorNames.every((name) => command.names.includes(name)));

const isOperator = (name: string): boolean => (operatorNames as readonly string[]).includes(name);
