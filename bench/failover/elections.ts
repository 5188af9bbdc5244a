import type { Operator, OperatorName } from '../operators.ts';

/** Whether standbys fill their caches. */
export type Standby = 'cold' | 'warm';

/** The Lease of a group. */
export interface LeaseKey {
  readonly namespace: string;
  readonly name: string;
}

/** How to configure an operator's leader election, and the log lines that show its state. */
interface Election {
  environment(lease: LeaseKey, standby: Standby): Readonly<Record<string, string>>;
  /** In the log when the operator leads. */
  readonly leads: string;
  /** In the log when the operator contends and does not lead. */
  readonly contends: string;
}

/** The defaults of client-go and controller-runtime, for all operators. */
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

/** An operator with leader election. */
export interface Electing {
  readonly operator: Operator;
  readonly election: Election;
}

/** Returns the operators with leader election. */
export const electing = (operators: readonly Operator[]): readonly Electing[] =>
  operators.flatMap((operator) => {
    const election = elections[operator.name];
    return election === undefined ? [] : [{ operator, election }];
  });

const retryMs = timings.retryPeriodSeconds * 1000;
/** client-go's standby reads the Lease every 1 to 2.2 retry periods, 1.6 on average. */
const meanPauseMs = retryMs * 1.6;

/**
 * Returns how long to wait before the leader ends. Every moment between two reads of the Lease by client-go's standby
 * is equally likely, because the range is as long as the mean time between them.
 */
export const randomPauseMs = (random: () => number = Math.random): number => retryMs + random() * meanPauseMs;
