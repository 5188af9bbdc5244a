import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  type ActivityQuery,
  askForExplanation,
  type ExplainAnswer,
  type ExplainQuery,
  story,
} from './runtime/process/index.ts';

/** There is no explanation. The message says why. */
export class ExplainError extends Error {
  override readonly name = 'ExplainError';
}

/** The arguments of `explain` are wrong. */
export class ExplainUsageError extends Error {
  override readonly name = 'ExplainUsageError';
}

/** How often `--follow` asks again. */
const followEveryMs = 1000;

/**
 * Asks the operator in this container why an object is as it is, or what the operator did and has not ended.
 *
 * @param args `echo/hello -n default --json`, or `--since 300`, which without `-n` means all namespaces.
 * @param folder where the operator serves explanations.
 * @param options.color escape sequences for a terminal. Default false.
 * @returns the texts to print; with `--follow` one after each change, without an end.
 * @throws ExplainUsageError; ExplainError if no operator answers or it reconciles no such kind.
 */
export async function* explainCommand(
  args: readonly string[],
  folder: string | undefined,
  { color = false }: { readonly color?: boolean } = {},
): AsyncGenerator<string, void> {
  const { query, json, follow } = parse(args);
  if (folder === undefined) throw new ExplainError('EXPLAIN_DIR is not set: this operator records nothing');
  let printed = '';
  do {
    const answer = (await askForExplanation(folder, query).catch((cause: unknown) => {
      throw new ExplainError(`no operator answers in ${folder}: ${String(cause)}`, { cause });
    })) as ExplainAnswer;
    if (!json && answer.problem !== undefined) throw new ExplainError(answer.problem);
    const state = stateOf(answer);
    if (state !== printed) yield `${json ? JSON.stringify(answer, undefined, 2) : story(answer, { color })}\n`;
    printed = state;
    if (follow) await delay(followEveryMs);
  } while (follow);
}

/** What `--follow` prints again for: all but the time of the answer, and for how long something waits. */
function stateOf({ explanation, activity }: ExplainAnswer): string {
  const withoutAt = [explanation, activity].map((part) => part && { ...part, at: '' });
  return JSON.stringify(withoutAt, (name, value) =>
    name === 'now' ? String(value).replace(/\d+(\.\d+)? (ms|s|min)\b/g, '') : value,
  );
}

interface ExplainArguments {
  readonly query: ExplainQuery | ActivityQuery;
  readonly json: boolean;
  readonly follow: boolean;
}

const usage = 'takes KIND/NAME, as echo/hello, or --since SECONDS';

function parse(args: readonly string[]): ExplainArguments {
  const { values, positionals } = parsed(args);
  const { namespace, since, json, follow } = values;
  if (since !== undefined) {
    const withinSeconds = Number(since);
    if (positionals.length > 0 || !(withinSeconds > 0 && Number.isFinite(withinSeconds)))
      throw new ExplainUsageError(`explain: ${usage}`);
    return { query: { ...(namespace !== undefined && { namespace }), withinSeconds }, json, follow };
  }
  const [kind = '', name = '', ...further] = positionals.length === 1 ? (positionals[0]?.split('/') ?? []) : [];
  if (kind === '' || name === '' || further.length > 0) {
    throw new ExplainUsageError(`explain: got ${positionals.join(' ') || 'nothing'}, ${usage}`);
  }
  return { query: { kind, namespace: namespace ?? 'default', name }, json, follow };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        namespace: { type: 'string', short: 'n' },
        since: { type: 'string' },
        json: { type: 'boolean', default: false },
        follow: { type: 'boolean', short: 'f', default: false },
      },
    });
  } catch (cause) {
    throw new ExplainUsageError(`explain: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}
