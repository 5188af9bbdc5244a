import { isDeepStrictEqual } from 'node:util';
import { isObject } from '@echoperator/runtime/internal';
import { NotSimulatedError, RefusedError } from './strategy.ts';

/** Applies a JSON merge patch (RFC 7386). */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Record<string, unknown> = isObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = mergePatch(result[name], value);
  }
  return result;
}

interface Operation {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

/**
 * Applies a JSON patch (RFC 6902).
 *
 * @throws {@link RefusedError} if a path does not exist or a test fails; {@link NotSimulatedError} for `move` and
 *   `copy`.
 */
export function jsonPatch(target: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw invalid('a JSON patch is a list');
  return (patch as readonly Operation[]).reduce((value, operation) => {
    const steps = operation.path.split('/').slice(1);
    return change(
      value,
      steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~')),
      operation,
    );
  }, target);
}

function change(value: unknown, [step, ...rest]: readonly string[], operation: Operation): unknown {
  if (step === undefined) return changed(value, operation);
  if (Array.isArray(value)) return changeList(value, step, rest, operation);
  if (!isObject(value)) throw missing(operation);
  const exists = Object.hasOwn(value, step);
  if (!exists && (rest.length > 0 || operation.op !== 'add')) throw missing(operation);
  const { [step]: member, ...others } = value;
  if (rest.length === 0 && operation.op === 'remove') return others;
  return { ...value, [step]: change(member, rest, operation) };
}

function changeList(list: readonly unknown[], step: string, rest: readonly string[], operation: Operation): unknown {
  const isInsertion = operation.op === 'add' && rest.length === 0;
  const index = step === '-' ? list.length : Number(step);
  if (!/^(-|0|[1-9][0-9]*)$/.test(step) || index > list.length || (index === list.length && !isInsertion))
    throw missing(operation);
  if (isInsertion) return list.toSpliced(index, 0, operation.value);
  if (operation.op === 'remove' && rest.length === 0) return list.toSpliced(index, 1);
  return list.with(index, change(list[index], rest, operation));
}

function changed(value: unknown, operation: Operation): unknown {
  switch (operation.op) {
    case 'add':
    case 'replace':
      return operation.value;
    case 'test':
      if (isDeepStrictEqual(value, operation.value)) return value;
      throw invalid(`testing value ${operation.path} failed`);
    default:
      throw new NotSimulatedError(
        `the simulated API server does not know the operation ${operation.op} of a JSON patch`,
      );
  }
}

const missing = ({ op, path }: Operation): RefusedError =>
  invalid(`${op} operation does not apply: path ${path} does not exist`);

const invalid = (message: string): RefusedError =>
  new RefusedError({
    code: 422,
    reason: 'Invalid',
    message: `the server rejected our request due to an error in our request: ${message}`,
  });
