import { styleText } from 'node:util';
import { duration, type ExplainedReconcile, type ExplainedStep, type ExplainResponse, nameOf } from './explanation.ts';
import { printable } from './printable.ts';

/** Output options. */
export interface FormatExplanationOptions {
  /** Escape sequences for a terminal. Default false. */
  readonly color?: boolean;
}

type Style = (format: 'dim' | 'red' | 'bold', text: string) => string;

/** How parts of an explanation are formatted. */
interface Format {
  readonly style: Style;
  /** `14:03:05.120`, in UTC, with the date if it differs from the explanation's date. */
  readonly time: (iso: string) => string;
  /** The time at the beginning of a paragraph. */
  readonly clock: (iso: string) => string;
}

/**
 * Formats an explanation as text: one paragraph per reconcile, newest last, then what the key waits for, and which
 * process leads. Control characters in errors and names are escaped.
 *
 * @example
 * console.log(formatExplanation({ explanation: recorder.explain({ kind: 'Greeting', namespace: 'default', name: 'world' }) }));
 */
export function formatExplanation(
  response: Partial<ExplainResponse>,
  { color = false }: FormatExplanationOptions = {},
): string {
  const style: Style = color ? (format, text) => styleText(format, text, { validateStream: false }) : (_, text) => text;
  const { explanation, activity, problem, notes = [], leader } = printableResponse(response);
  return [
    ...notes,
    ...(problem === undefined ? [] : [problem]),
    ...(explanation === undefined ? [] : explanationLines(explanation, formatAt(explanation.at, style))),
    ...(activity === undefined ? [] : activityLines(activity, formatAt(activity.at, style))),
    ...(leader === undefined ? [] : [leaderLine(leader)]),
  ].join('\n');
}

/** Escape texts before they are styled, because styles are control characters too. */
const printableResponse = (response: Partial<ExplainResponse>): Partial<ExplainResponse> =>
  JSON.parse(JSON.stringify(response), (_, value) => (typeof value === 'string' ? printable(value) : value));

function explanationLines(
  { kind, key, at, now, total, reconciles, ignored }: NonNullable<ExplainResponse['explanation']>,
  format: Format,
): readonly string[] {
  const { style, clock } = format;
  const listed = reconciles.reduce((sum, { repeated }) => sum + 1 + (repeated?.times ?? 0), 0);
  const isRunning = reconciles.length > 0 && reconciles.at(-1)?.ms === undefined;
  const dropped = total - listed + (isRunning ? 1 : 0);
  return [
    style('bold', `${kind} ${key}`),
    ...(dropped > 0 ? [`(${dropped} of ${total} reconciles are no longer recorded)`] : []),
    ...(reconciles.length === 0
      ? ['no reconcile is recorded: none ran since this replica leads, or its record was dropped']
      : []),
    ...reconciles.flatMap((each) => paragraph(each, '', format)),
    ...(ignored === undefined ? [] : [`${clock(ignored.at)}  ignored: ${ignored.change}`]),
    `${clock(at)}  now: ${now}`,
  ];
}

function activityLines(
  { namespace, withinSeconds, at, reconciles, unfinished, furtherUnfinished }: NonNullable<ExplainResponse['activity']>,
  format: Format,
): readonly string[] {
  const { style, clock } = format;
  const where = namespace === undefined ? 'in all namespaces' : `in the namespace ${namespace}`;
  const within = `in the last ${duration(withinSeconds * 1000)}`;
  return [
    reconciles.length === 0
      ? `nothing was sent ${where} ${within}, and nothing failed`
      : style('bold', `what the operator did ${where} ${within}`),
    ...reconciles.flatMap((each) => paragraph(each, `${each.kind} ${each.key}: `, format)),
    ...unfinished.map(({ kind, key, now }) => `${clock(at)}  now: ${kind} ${key}: ${now}`),
    ...(furtherUnfinished === undefined ? [] : [`and ${furtherUnfinished} more`]),
  ];
}

function leaderLine({ identity, isThisReplica, since, because }: NonNullable<ExplainResponse['leader']>): string {
  const when = isThisReplica ? `this replica, since ${since}` : `observed at ${since}`;
  return `leader: ${identity}, ${when}${because === undefined ? '' : `: ${because}`}`;
}

function paragraph(reconcile: ExplainedReconcile, subject: string, format: Format): readonly string[] {
  const { style, time, clock } = format;
  const { at, why, queuedMs, repeated, steps, furtherSteps, outcome } = reconcile;
  const waits = [`queued for ${duration(queuedMs)}`];
  const again =
    repeated === undefined
      ? ''
      : `; also ${repeated.times} ${repeated.times === 1 ? 'time' : 'times'} since ${time(repeated.firstAt)}`;
  const end = ending(reconcile, time);
  const lines = [
    ...steps.map(sentence),
    ...(furtherSteps === undefined ? [] : [`and ${furtherSteps} more`]),
    outcome === 'error' ? style('red', end) : end,
  ];
  return [`${clock(at)}  ${subject}${why} (${waits.join(', ')})${again}`, ...lines.map((line) => `${indent}${line}`)];
}

function sentence(step: ExplainedStep): string {
  if (step.verb === 'unchanged') return `${step.kind} ${step.name} is as desired: nothing sent`;
  const paths = step.paths === undefined ? '' : ` (${step.paths.join(', ')})`;
  if (step.response === undefined) return `${nameOf(step)}${paths}: no response yet`;
  return `${nameOf(step)}${paths}: ${step.response}${step.ms === undefined ? '' : `, ${duration(step.ms)}`}`;
}

function ending(
  { ms, steps, outcome, failure, reason, error, nextAt }: ExplainedReconcile,
  time: Format['time'],
): string {
  if (ms === undefined || outcome === undefined) return 'still runs';
  const end = outcome === 'error' ? `failed${failure === undefined ? '' : ` (${failure})`}` : 'done';
  return [
    `${end} after ${duration(ms)}`,
    ...(steps.length === 0 ? ['sent nothing'] : []),
    ...(reason === undefined ? [] : [reason]),
    ...(error === undefined ? [] : [error]),
    ...(nextAt === undefined ? [] : [`again at ${time(nextAt)}`]),
  ].join('; ');
}

const indent = ' '.repeat(14);

function formatAt(at: string, style: Style): Format {
  const time = (iso: string): string =>
    `${iso.slice(0, 10) === at.slice(0, 10) ? '' : `${iso.slice(0, 10)} `}${iso.slice(11, 23)}`;
  return { style, time, clock: (iso) => style('dim', time(iso)) };
}
