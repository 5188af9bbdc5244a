import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  type ActivityQuery,
  askForExplanation,
  type ExplainQuery,
  type ExplainResponse,
  formatExplanation,
  printableLines,
} from '@echoperator/runtime/process';

/** Thrown when `explain` has nothing to report. The message says why. */
export class ExplainError extends Error {
  override readonly name = 'ExplainError';
}

/** The arguments of `explain` are wrong. */
export class ExplainUsageError extends Error {
  override readonly name = 'ExplainUsageError';
}

/** The pause between two queries of `--follow`. */
const followEveryMs = 1000;

/**
 * Asks the operator in this container for the history of an object, or for the recent and current reconciles.
 *
 * @param args `echo/hello -n default --json`, or `--since 300`, which without `-n` means all namespaces.
 * @param folder where the operator serves explanations.
 * @param options.color escape sequences for a terminal. Default false.
 * @returns the texts to print: one, or with `--follow` one after each change, endlessly.
 * @throws ExplainUsageError; ExplainError if no operator responds, or if the operator does not reconcile the kind.
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
    const response = (await askForExplanation(folder, query).catch((cause: unknown) => {
      throw new ExplainError(`no operator answers in ${folder}: ${String(cause)}`, { cause });
    })) as ExplainResponse;
    if (!json && response.problem !== undefined) throw new ExplainError(response.problem);
    const state = stateOf(response);
    if (state !== printed)
      yield `${json ? printableLines(JSON.stringify(response, undefined, 2)) : formatExplanation(response, { color })}\n`;
    printed = state;
    if (follow) await delay(followEveryMs);
  } while (follow);
}

/** A change of this text makes `--follow` print again. It lacks the time of the response and the durations of waits. */
function stateOf({ explanation, activity, ...others }: ExplainResponse): string {
  const withoutAt = [explanation, activity].map((part) => part && { ...part, at: '' });
  return JSON.stringify([...withoutAt, others], (name, value) =>
    name === 'now' ? String(value).replace(/\d+(\.\d+)? (ms|s|min)\b/g, '') : value,
  );
}

interface ExplainArguments {
  readonly query: ExplainQuery | ActivityQuery;
  readonly json: boolean;
  readonly follow: boolean;
}

function parse(args: readonly string[]): ExplainArguments {
  const { values, positionals } = parsed(args);
  const { namespace, since, json, follow } = values;
  const object = positionals.join(' ');
  if (since !== undefined) {
    if (object !== '') throw new ExplainUsageError(`explain: got ${object} and --since ${since}, takes one of them`);
    const withinSeconds = Number(since);
    if (!(withinSeconds > 0 && Number.isFinite(withinSeconds))) {
      const takes = 'takes a number of seconds above 0, as 300';
      throw new ExplainUsageError(`explain: --since: got ${since || 'nothing'}, ${takes}`);
    }
    return { query: { ...(namespace !== undefined && { namespace }), withinSeconds }, json, follow };
  }
  const [kind = '', name = '', ...further] = positionals.length === 1 ? object.split('/') : [];
  if (kind === '' || name === '' || further.length > 0) {
    const takes = 'takes KIND/NAME, as echo/hello, or --since SECONDS';
    throw new ExplainUsageError(`explain: got ${object || 'nothing'}, ${takes}`);
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
    // `parseArgs` throws TypeErrors. Their second sentence is about arguments that begin with "-", which no name of an
    // object does.
    const [problem] = (cause as TypeError).message.split('. ');
    throw new ExplainUsageError(`explain: ${problem}`, { cause });
  }
}
