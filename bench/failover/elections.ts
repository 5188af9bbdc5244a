import type { Operator, OperatorName } from '../operators.ts';

/** Whether those who stand by fill their caches. */
export type Standby = 'cold' | 'warm';
export const standbys: readonly Standby[] = ['cold', 'warm'];

/** The Lease of a group. */
export interface LeaseKey {
  readonly namespace: string;
  readonly name: string;
}

/** How an operator is told to contend, and how its log tells what became of it. */
export interface Election {
  environment(lease: LeaseKey, standby: Standby): Readonly<Record<string, string>>;
  /** It leads. */
  readonly leads: string;
  /** It contends, and another candidate leads or may do so. */
  readonly contends: string;
}

/** client-go's and controller-runtime's own, the same for all. */
export const timings = { leaseDurationSeconds: 15, renewDeadlineSeconds: 10, retryPeriodSeconds: 2 } as const;

const elections: Readonly<Partial<Record<OperatorName, Election>>> = {
  echoperator: {
    environment: ({ namespace, name }, standby) => ({
      NAMESPACE: namespace,
      HA_ENABLED: 'true',
      HA_LEASE_LOCK_NAME: name,
      HA_LEASE_DURATION_SECONDS: String(timings.leaseDurationSeconds),
      HA_RENEW_DEADLINE_SECONDS: String(timings.renewDeadlineSeconds),
      HA_RETRY_PERIOD_SECONDS: String(timings.retryPeriodSeconds),
      HA_WARM_STANDBY: String(standby === 'warm'),
    }),
    leads: '"msg":"leading"',
    contends: '"msg":"another candidate leads"',
  },
  'controller-runtime': {
    environment: ({ namespace, name }, standby) => ({
      LEADER_ELECTION_NAMESPACE: namespace,
      LEADER_ELECTION_ID: name,
      LEASE_DURATION: `${timings.leaseDurationSeconds}s`,
      RENEW_DEADLINE: `${timings.renewDeadlineSeconds}s`,
      RETRY_PERIOD: `${timings.retryPeriodSeconds}s`,
      WARM_STANDBY: String(standby === 'warm'),
    }),
    leads: 'Successfully acquired lease',
    contends: 'Attempting to acquire leader lease',
  },
};

/** An operator that can stand by. */
export interface Electing {
  readonly operator: Operator;
  readonly election: Election;
}

/** Those of them that can stand by. */
export const electing = (operators: readonly Operator[]): readonly Electing[] =>
  operators.flatMap((operator) => {
    const election = elections[operator.name];
    return election === undefined ? [] : [{ operator, election }];
  });

const retryMs = timings.retryPeriodSeconds * 1000;
/** client-go's standby asks after 1 to 2.2 retry periods: every 1.6 in the mean. */
const meanPauseMs = retryMs * 1.6;

/**
 * How long a standby is left alone before its leader ends: any moment between two times at which client-go's asks for the
 * Lease is as likely as any other, since the length of what is drawn from is the mean time between them.
 */
export const randomPauseMs = (random: () => number = Math.random): number => retryMs + random() * meanPauseMs;
