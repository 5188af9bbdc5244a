import { type Display, type Report, runSteps } from '../progress.ts';

/**
 * Runs an action and shows its title, its progress and its duration.
 *
 * @returns the action's result.
 * @throws the action's error
 */
export type RunStep = <T>(title: string, action: (report: Report) => Promise<T>) => Promise<T>;

export function stepRunner(display: Display): RunStep {
  return async <T>(title: string, action: (report: Report) => Promise<T>): Promise<T> => {
    const done = Promise.withResolvers<T>();
    await runSteps([{ title, run: async (report) => done.resolve(await action(report)) }], display);
    return done.promise;
  };
}
