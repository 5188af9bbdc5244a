import { serveExplanations } from '../observability/explain-socket.ts';
import type { ActivityQuery, ExplainQuery, ExplainResponse } from '../observability/explanation.ts';
import { FlightRecorder } from '../observability/flight-recorder.ts';
import type { Logger } from '../shared/logger.ts';
import type { Operator } from './connect-operator.ts';

/** How an operator explains what it did. */
export interface ExplainOptions {
  /** The folder in which the socket is created. Only the user of this process may open the socket. */
  readonly folder: string;
  /** Notes that limit the explanations of a kind, for example that its controller is disabled. Default: none. */
  readonly notes?: (kind: string) => readonly string[];
}

/** Records reconciles, and serves explanations of them. */
export interface Explaining {
  readonly recorder: FlightRecorder;
  readonly setOperator: (operator: Pick<Operator, 'leadership' | 'elector'>) => void;
  readonly close: () => Promise<void>;
}

/**
 * Serves explanations about an operator, once the operator is set. Returns undefined if the socket cannot be created.
 * Then the operator runs without explanations, and nothing is recorded.
 */
export async function startExplaining({ folder, notes }: ExplainOptions, log: Logger): Promise<Explaining | undefined> {
  const recorder = new FlightRecorder();
  let operator: Pick<Operator, 'leadership' | 'elector'> | undefined;
  const answer = (query: ExplainQuery | ActivityQuery): ExplainResponse =>
    operator === undefined
      ? { problem: 'the operator starts: ask again', notes: [] }
      : responseTo(query, operator, recorder, notes);
  try {
    const server = await serveExplanations(folder, answer, log);
    return {
      recorder,
      setOperator: (started) => {
        operator = started;
      },
      close: () => server.close(),
    };
  } catch (error) {
    log.warn({ err: error, folder }, 'no socket for explanations: choose another folder');
    return undefined;
  }
}

function responseTo(
  query: ExplainQuery | ActivityQuery,
  operator: Pick<Operator, 'leadership' | 'elector'>,
  recorder: FlightRecorder,
  notesOf: ExplainOptions['notes'] = () => [],
): ExplainResponse {
  const leadership = operator.leadership();
  const answer: Omit<ExplainResponse, 'notes'> =
    'kind' in query ? explainObject(query, recorder) : { activity: recorder.explainActivity(query) };
  const standby = operator.elector?.isLeading === false ? ['this replica does not lead: ask the leader'] : [];
  return {
    ...answer,
    notes: [...standby, ...(answer.explanation === undefined ? [] : notesOf(answer.explanation.kind))],
    ...(leadership !== undefined && {
      leader: {
        identity: leadership.identity,
        isThisReplica: leadership.isThisProcess,
        since: leadership.since.toISOString(),
        ...(leadership.because !== undefined && { because: leadership.because }),
      },
    }),
  };
}

function explainObject(
  query: ExplainQuery,
  recorder: FlightRecorder,
): Pick<ExplainResponse, 'explanation' | 'problem'> {
  const explanation = recorder.explain(query);
  if (explanation !== undefined) return { explanation };
  return { problem: `this operator reconciles no kind ${query.kind}: name it as kubectl does, as deployments.apps` };
}
