/** Whether a smaller or a larger figure is better. */
type Better = 'lower' | 'higher';

/** What a round measures. */
export type Scenario =
  | 'load'
  | 'side by side'
  | 'long burst'
  | 'cache'
  | 'event cost'
  | 'to Succeeded'
  | 'handover'
  | 'crash'
  | 'lost node'
  | 'idle group'
  | 'rows'
  | 'pets'
  | 'neighbor'
  | 'refused neighbor';

interface About {
  /** The scenario whose turns have the figure. */
  readonly scenario: Scenario;
  readonly title: string;
  /** The decimal places that the tables show. */
  readonly digits: number;
  readonly better: Better;
}

/** All measures. */
export const measures = {
  echosPerSecond: { scenario: 'load', title: 'burst: Echos/s', digits: 0, better: 'higher' },
  burstP50: { scenario: 'load', title: 'burst: p50 wait, ms', digits: 1, better: 'lower' },
  burstP99: { scenario: 'load', title: 'burst: p99 wait, ms', digits: 0, better: 'lower' },
  cpuPerEcho: { scenario: 'load', title: "burst: operator's CPU per Echo, ms", digits: 2, better: 'lower' },
  serverCpuPerEcho: { scenario: 'load', title: "burst: API server's CPU per Echo, ms", digits: 2, better: 'lower' },
  peakMemory: { scenario: 'load', title: 'burst: peak memory, MB', digits: 0, better: 'lower' },
  peakAnonymous: { scenario: 'load', title: 'burst: peak anonymous memory, MB', digits: 0, better: 'lower' },
  warmEchosPerSecond: { scenario: 'load', title: 'second burst: Echos/s', digits: 0, better: 'higher' },
  warmCpuPerEcho: { scenario: 'load', title: "second burst: operator's CPU per Echo, ms", digits: 2, better: 'lower' },
  warmServerCpuPerEcho: {
    scenario: 'load',
    title: "second burst: API server's CPU per Echo, ms",
    digits: 2,
    better: 'lower',
  },
  resumedWatches: { scenario: 'load', title: 'bursts and paces: watches resumed', digits: 0, better: 'lower' },
  besideCpuPerEcho: {
    scenario: 'side by side',
    title: "side by side: operator's CPU per Echo, ms",
    digits: 2,
    better: 'lower',
  },
  besideWarmCpuPerEcho: {
    scenario: 'side by side',
    title: "side by side, warm: operator's CPU per Echo, ms",
    digits: 2,
    better: 'lower',
  },
  besidePeakAnonymous: {
    scenario: 'side by side',
    title: 'side by side: peak anonymous memory, MB',
    digits: 1,
    better: 'lower',
  },
  longEchosPerSecond: { scenario: 'long burst', title: 'long burst: Echos/s', digits: 0, better: 'higher' },
  longP50: { scenario: 'long burst', title: 'long burst: p50 wait, ms', digits: 1, better: 'lower' },
  longP99: { scenario: 'long burst', title: 'long burst: p99 wait, ms', digits: 0, better: 'lower' },
  longCpuPerEcho: {
    scenario: 'long burst',
    title: "long burst: operator's CPU per Echo, ms",
    digits: 2,
    better: 'lower',
  },
  longServerCpuPerEcho: {
    scenario: 'long burst',
    title: "long burst: API server's CPU per Echo, ms",
    digits: 2,
    better: 'lower',
  },
  longPeakMemory: { scenario: 'long burst', title: 'long burst: peak memory, MB', digits: 0, better: 'lower' },
  longPeakAnonymous: {
    scenario: 'long burst',
    title: 'long burst: peak anonymous memory, MB',
    digits: 0,
    better: 'lower',
  },
  longResumedWatches: { scenario: 'long burst', title: 'long burst: watches resumed', digits: 0, better: 'lower' },
  pace30P50: { scenario: 'load', title: 'at 30 %: p50 wait, ms', digits: 1, better: 'lower' },
  pace30P99: { scenario: 'load', title: 'at 30 %: p99 wait, ms', digits: 1, better: 'lower' },
  pace60P50: { scenario: 'load', title: 'at 60 %: p50 wait, ms', digits: 1, better: 'lower' },
  pace60P99: { scenario: 'load', title: 'at 60 %: p99 wait, ms', digits: 1, better: 'lower' },
  pace90P50: { scenario: 'load', title: 'at 90 %: p50 wait, ms', digits: 1, better: 'lower' },
  pace90P99: { scenario: 'load', title: 'at 90 %: p99 wait, ms', digits: 1, better: 'lower' },
  idleMemory: { scenario: 'load', title: 'memory idle, MB', digits: 0, better: 'lower' },
  idleAnonymous: { scenario: 'load', title: 'anonymous memory idle, MB', digits: 1, better: 'lower' },
  cachedMemory: { scenario: 'cache', title: 'memory with all cached, MB', digits: 0, better: 'lower' },
  cachedAnonymous: { scenario: 'cache', title: 'anonymous memory with all cached, MB', digits: 0, better: 'lower' },
  start: { scenario: 'cache', title: 'start to synced, ms', digits: 0, better: 'lower' },
  longestPause: { scenario: 'cache', title: 'start: longest pause of the event loop, ms', digits: 0, better: 'lower' },
  eventCpu: { scenario: 'event cost', title: "an event: operator's CPU, µs", digits: 1, better: 'lower' },
  statusWrites: { scenario: 'to Succeeded', title: 'to Succeeded: status writes per Echo', digits: 2, better: 'lower' },
  jobsPerSecond: { scenario: 'to Succeeded', title: 'to Succeeded: Jobs/s', digits: 0, better: 'higher' },
  lifecycleCpu: {
    scenario: 'to Succeeded',
    title: "to Succeeded: operator's CPU per Echo, ms",
    digits: 2,
    better: 'lower',
  },
  idleLagP50: {
    scenario: 'to Succeeded',
    title: 'to Succeeded: idle, p50 from Job to status, ms',
    digits: 1,
    better: 'lower',
  },
  burstLagP50: {
    scenario: 'to Succeeded',
    title: 'to Succeeded: burst, p50 from Job to status, ms',
    digits: 1,
    better: 'lower',
  },
  burstLagP99: {
    scenario: 'to Succeeded',
    title: 'to Succeeded: burst, p99 from Job to status, ms',
    digits: 1,
    better: 'lower',
  },
  coldHandover: { scenario: 'handover', title: 'cold standby: SIGTERM to first write, ms', digits: 0, better: 'lower' },
  warmHandover: { scenario: 'handover', title: 'warm standby: SIGTERM to first write, ms', digits: 0, better: 'lower' },
  coldCrash: { scenario: 'crash', title: 'cold standby: SIGKILL to first write, ms', digits: 0, better: 'lower' },
  warmCrash: { scenario: 'crash', title: 'warm standby: SIGKILL to first write, ms', digits: 0, better: 'lower' },
  nodeLoss: { scenario: 'lost node', title: 'warm standby: lost node to first write, ms', digits: 0, better: 'lower' },
  coldIdleRequests: {
    scenario: 'idle group',
    title: 'three idle, cold: requests per hour',
    digits: 0,
    better: 'lower',
  },
  warmIdleRequests: {
    scenario: 'idle group',
    title: 'three idle, warm: requests per hour',
    digits: 0,
    better: 'lower',
  },
  rowsSeconds: { scenario: 'rows', title: 'PostgresWriters: s until all have rows', digits: 1, better: 'lower' },
  rowsCpu: { scenario: 'rows', title: 'PostgresWriters: CPU of everything, s', digits: 1, better: 'lower' },
  rowStatements: { scenario: 'rows', title: 'PostgresWriters: statements', digits: 0, better: 'lower' },
  rowsDatabaseMs: { scenario: 'rows', title: 'PostgresWriters: time in the database, ms', digits: 0, better: 'lower' },
  rowsToCopy: { scenario: 'rows', title: 'PostgresWriters: that ÷ one COPY', digits: 2, better: 'lower' },
  rowsToInserts: { scenario: 'rows', title: 'PostgresWriters: that ÷ one INSERT each', digits: 2, better: 'lower' },
  petsPerSecond: { scenario: 'pets', title: 'Pets/s', digits: 0, better: 'higher' },
  neighborP50: { scenario: 'neighbor', title: 'beside a busy tenant: p50 wait, ms', digits: 0, better: 'lower' },
  neighborP99: { scenario: 'neighbor', title: 'beside a busy tenant: p99 wait, ms', digits: 0, better: 'lower' },
  refusedP50: {
    scenario: 'refused neighbor',
    title: 'beside a failing tenant: p50 wait, ms',
    digits: 0,
    better: 'lower',
  },
  refusedP99: {
    scenario: 'refused neighbor',
    title: 'beside a failing tenant: p99 wait, ms',
    digits: 0,
    better: 'lower',
  },
  refusedPerSecond: {
    scenario: 'refused neighbor',
    title: 'failing tenant: refused requests in the worst second',
    digits: 0,
    better: 'lower',
  },
  recoveredShare: {
    scenario: 'refused neighbor',
    title: 'failing tenant: % with a Job a minute after the end of the refusals',
    digits: 0,
    better: 'higher',
  },
  recoveryOrder: {
    scenario: 'refused neighbor',
    title: 'failing tenant: rank correlation of age and recovery',
    digits: 2,
    better: 'higher',
  },
  petsCpu: { scenario: 'pets', title: 'Pets: CPU of everything, s', digits: 1, better: 'lower' },
} as const satisfies Readonly<Record<string, About>>;

export type Measure = keyof typeof measures;

/** The figures of one turn of an operator. */
export type Figures = Readonly<Partial<Record<Measure, number>>>;
