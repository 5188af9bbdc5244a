/** What is measured, each with the unit that the table shows and how many digits it is worth. */
export const measures = {
  echosPerSecond: { title: 'Echos/s in the burst', digits: 0 },
  burstP50: { title: 'burst: p50 wait, ms', digits: 1 },
  burstP99: { title: 'burst: p99 wait, ms', digits: 0 },
  cpuPerEcho: { title: "burst: operator's CPU an Echo, ms", digits: 2 },
  serverCpuPerEcho: { title: "burst: API server's CPU an Echo, ms", digits: 2 },
  peakMemory: { title: 'burst: peak memory, MB', digits: 0 },
  steadyP50: { title: '50/s: p50 wait, ms', digits: 1 },
  steadyP99: { title: '50/s: p99 wait, ms', digits: 1 },
  idleMemory: { title: 'memory idle, MB', digits: 0 },
  cachedMemory: { title: 'memory with all cached, MB', digits: 0 },
  start: { title: 'start to synced, ms', digits: 0 },
} as const;

export type Measure = keyof typeof measures;

/** One operator's figures of one round. */
export type Figures = Partial<Record<Measure, number>>;
