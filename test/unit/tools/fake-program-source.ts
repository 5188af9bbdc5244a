import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProgramSource } from '../../../tools/programs/build.ts';
import type { Binary } from '../../../tools/programs/catalogue.ts';
import type { Display } from '../../../tools/progress.ts';

/**
 * A source in a folder of its own, with a `go` that writes a script in place of compiling: it notes each build,
 * stops while the file `hold` is there, and fails with the text in the file `fail`.
 */
const fakeGo = `#!/bin/sh
cd "$(dirname "$0")/.."
if [ "$1" = env ]; then cat go-env; exit; fi
echo "$3" >> builds
echo "$@" > arguments
printf half > "$3"
echo $$ > held
while [ -e hold ]; do sleep 0.02; done
if [ -e fail ]; then cat fail >&2; exit 1; fi
printf '#!/bin/sh\\necho built\\n' > "$3"
chmod +x "$3"
`;

export class FakeProgramSource implements ProgramSource, AsyncDisposable {
  readonly binaries: readonly Binary[] = [
    { name: 'alpha', group: 'letters', package: './alpha', assets: 'required', seconds: 1 },
    { name: 'beta', group: 'letters', package: './beta', assets: 'optional', seconds: 1 },
    { name: 'one', group: 'digits', package: './one', seconds: 1 },
  ];
  readonly root: string;
  readonly environment: NodeJS.ProcessEnv;

  private constructor(root: string) {
    this.root = root;
    this.environment = {
      PATH: `${join(root, 'bin')}:${process.env.PATH}`,
      XDG_CACHE_HOME: join(root, 'cache'),
    };
  }

  static async make(): Promise<FakeProgramSource> {
    const source = new FakeProgramSource(await mkdtemp(join(tmpdir(), 'source-')));
    for (const group of ['letters', 'digits']) {
      await source.write(`programs/${group}/go.mod`, `module ${group}\n\ngo 1.26.0\n`);
      await source.write(`programs/${group}/go.sum`, '');
    }
    await source.write('go-env', 'go1.26.8\nlinux\namd64\n');
    await source.write('bin/go', fakeGo);
    await chmod(join(source.root, 'bin/go'), 0o755);
    return source;
  }

  get folder(): string {
    return join(this.root, 'programs');
  }

  async write(path: string, text: string): Promise<void> {
    await mkdir(join(this.root, path, '..'), { recursive: true });
    await writeFile(join(this.root, path), text);
  }

  /** From now on a build stops half-way until it is released. */
  async hold(): Promise<void> {
    await this.write('hold', '');
  }

  async release(): Promise<void> {
    await rm(join(this.root, 'hold'), { force: true });
  }

  /** @returns the process id of a build that has begun, once there is one */
  async held(): Promise<number> {
    let text = '';
    await until(async () => {
      text = await readFile(join(this.root, 'held'), 'utf8').catch(() => '');
      return text.endsWith('\n');
    });
    return Number(text);
  }

  /** How often a build was begun. */
  async builds(): Promise<number> {
    const text = await readFile(join(this.root, 'builds'), 'utf8').catch(() => '');
    return text.split('\n').length - 1;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
    await rm(this.root, { recursive: true, force: true });
  }
}

/** A display that keeps what it is shown. */
export function recordingDisplay(heartbeatMs = 60_000): Display & { readonly lines: string[] } {
  const lines: string[] = [];
  return { lines, line: (text) => void lines.push(text), heartbeatMs };
}

/** Waits until a condition holds; the test's own time-out is the limit. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(10);
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
