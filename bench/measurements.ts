/** Whether a smaller or a larger figure is better. */
type Better = 'lower' | 'higher';

/** All measures, with the title and the digits that the tables show. */
export const measures = {
  echosPerSecond: { title: 'burst: Echos/s', digits: 0, better: 'higher' },
  burstP50: { title: 'burst: p50 wait, ms', digits: 1, better: 'lower' },
  burstP99: { title: 'burst: p99 wait, ms', digits: 0, better: 'lower' },
  cpuPerEcho: { title: "burst: operator's CPU an Echo, ms", digits: 2, better: 'lower' },
  serverCpuPerEcho: { title: "burst: API server's CPU an Echo, ms", digits: 2, better: 'lower' },
  peakMemory: { title: 'burst: peak memory, MB', digits: 0, better: 'lower' },
  peakAnonymous: { title: 'burst: peak anonymous memory, MB', digits: 0, better: 'lower' },
  warmEchosPerSecond: { title: 'second burst: Echos/s', digits: 0, better: 'higher' },
  warmCpuPerEcho: { title: "second burst: operator's CPU an Echo, ms", digits: 2, better: 'lower' },
  warmServerCpuPerEcho: { title: "second burst: API server's CPU an Echo, ms", digits: 2, better: 'lower' },
  longEchosPerSecond: { title: 'long burst: Echos/s', digits: 0, better: 'higher' },
  longP50: { title: 'long burst: p50 wait, ms', digits: 1, better: 'lower' },
  longP99: { title: 'long burst: p99 wait, ms', digits: 0, better: 'lower' },
  longCpuPerEcho: { title: "long burst: operator's CPU an Echo, ms", digits: 2, better: 'lower' },
  longServerCpuPerEcho: { title: "long burst: API server's CPU an Echo, ms", digits: 2, better: 'lower' },
  longPeakMemory: { title: 'long burst: peak memory, MB', digits: 0, better: 'lower' },
  longPeakAnonymous: { title: 'long burst: peak anonymous memory, MB', digits: 0, better: 'lower' },
  pace30P50: { title: 'at 30 %: p50 wait, ms', digits: 1, better: 'lower' },
  pace30P99: { title: 'at 30 %: p99 wait, ms', digits: 1, better: 'lower' },
  pace60P50: { title: 'at 60 %: p50 wait, ms', digits: 1, better: 'lower' },
  pace60P99: { title: 'at 60 %: p99 wait, ms', digits: 1, better: 'lower' },
  pace90P50: { title: 'at 90 %: p50 wait, ms', digits: 1, better: 'lower' },
  pace90P99: { title: 'at 90 %: p99 wait, ms', digits: 1, better: 'lower' },
  idleMemory: { title: 'memory idle, MB', digits: 0, better: 'lower' },
  idleAnonymous: { title: 'anonymous memory idle, MB', digits: 1, better: 'lower' },
  cachedMemory: { title: 'memory with all cached, MB', digits: 0, better: 'lower' },
  cachedAnonymous: { title: 'anonymous memory with all cached, MB', digits: 0, better: 'lower' },
  start: { title: 'start to synced, ms', digits: 0, better: 'lower' },
  eventCpu: { title: "an event: operator's CPU, µs", digits: 1, better: 'lower' },
  coldHandover: { title: 'cold standby: SIGTERM to first write, ms', digits: 0, better: 'lower' },
  warmHandover: { title: 'warm standby: SIGTERM to first write, ms', digits: 0, better: 'lower' },
  coldCrash: { title: 'cold standby: SIGKILL to first write, ms', digits: 0, better: 'lower' },
  warmCrash: { title: 'warm standby: SIGKILL to first write, ms', digits: 0, better: 'lower' },
  nodeLoss: { title: 'warm standby: lost node to first write, ms', digits: 0, better: 'lower' },
  coldIdleRequests: { title: 'three idle, cold: requests an hour', digits: 0, better: 'lower' },
  warmIdleRequests: { title: 'three idle, warm: requests an hour', digits: 0, better: 'lower' },
  rowsSeconds: { title: 'PostgresWriters: s until all have rows', digits: 1, better: 'lower' },
  rowsCpu: { title: 'PostgresWriters: CPU of everything, s', digits: 1, better: 'lower' },
  rowStatements: { title: 'PostgresWriters: statements', digits: 0, better: 'lower' },
  rowsDatabaseMs: { title: 'PostgresWriters: time in the database, ms', digits: 0, better: 'lower' },
  rowsToCopy: { title: 'PostgresWriters: that ÷ one COPY', digits: 2, better: 'lower' },
  rowsToInserts: { title: 'PostgresWriters: that ÷ one INSERT each', digits: 2, better: 'lower' },
  petsPerSecond: { title: 'Pets/s', digits: 0, better: 'higher' },
  petsCpu: { title: 'Pets: CPU of everything, s', digits: 1, better: 'lower' },
} as const satisfies Readonly<Record<string, { title: string; digits: number; better: Better }>>;

export type Measure = keyof typeof measures;

/** The figures of one turn of an operator. */
export type Figures = Readonly<Partial<Record<Measure, number>>>;
