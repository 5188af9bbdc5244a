import { type Display, type Report, runSteps } from '../progress.ts';

/** Shows that a piece of work goes on, and how long it took. @returns what the work returns, @throws what it throws */
export type Show = <T>(title: string, work: (report: Report) => Promise<T>) => Promise<T>;

export function showOn(display: Display): Show {
  return async <T>(title: string, work: (report: Report) => Promise<T>): Promise<T> => {
    const done = Promise.withResolvers<T>();
    await runSteps([{ title, run: async (report) => done.resolve(await work(report)) }], display);
    return done.promise;
  };
}
