import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { eventually } from '../../../../testkit/eventually.ts';
import { inTime } from '../../../../testkit/in-time.ts';
import type { Question, Questions, SubjectSettings } from './subject.ts';

/** A {@link SubjectSettings subject} in its own process. */
export class SubjectProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>();
  #questions = 0;
  #exited: string | undefined;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', ({ id, answer }: { readonly id: number; readonly answer: unknown }) => {
      this.#waiting.get(id)?.resolve(answer);
      this.#waiting.delete(id);
    });
    child.once('exit', (code, signal) => {
      this.#exited = `the subject has ended with ${code ?? signal}`;
      for (const { reject } of this.#waiting.values()) reject(new Error(this.#exited));
    });
  }

  /**
   * Starts a subject and returns when its caches have synced.
   *
   * @param environment in addition to this process's environment
   */
  static async start(
    settings: SubjectSettings,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<SubjectProcess> {
    const child = fork(join(import.meta.dirname, 'subject.ts'), {
      env: { ...process.env, ...environment, SUBJECT_SETTINGS: JSON.stringify(settings) },
      execArgv: ['--expose-gc'],
    });
    const subject = new SubjectProcess(child);
    try {
      await eventually('the subject is ready', () => subject.ask('ready'));
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
    return subject;
  }

  ask<Q extends keyof Questions>(ask: Q): Promise<Questions[Q]> {
    if (this.#exited !== undefined) return Promise.reject(new Error(this.#exited));
    const id = this.#questions++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: (answer) => resolve(answer as Questions[Q]), reject });
      this.#child.send({ id, ask } satisfies Question, (error) => error && reject(error));
    });
  }

  /** @throws Error if the subject does not exit; it is killed then */
  async stop(): Promise<void> {
    if (this.#exited !== undefined) return;
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    try {
      await inTime('the subject exits', exit);
    } finally {
      this.#child.kill('SIGKILL');
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
