import { tmpdir } from 'node:os';
import { ExecaError, execa } from 'execa';

/** The machine's own Go. */
export interface GoToolchain {
  /** As Go says it: `go1.26.8`. */
  readonly version: string;
  readonly os: string;
  readonly architecture: string;
}

/** Go is missing or too old. The message says what is needed and what to do. */
export class GoToolchainError extends Error {
  override readonly name = 'GoToolchainError';
}

/**
 * Go's settings for every call: the machine's Go or none. A go.mod that asks for a newer one would otherwise make Go
 * download a toolchain, which fails late and in other words where the machine is cut off.
 */
export const goSettings: Readonly<Record<string, string>> = { GOTOOLCHAIN: 'local', GOWORK: 'off', GOFLAGS: '' };

/**
 * @param environment where `go` is looked for (PATH), and its settings
 * @throws GoToolchainError if there is no Go
 */
export async function findGo(environment: NodeJS.ProcessEnv, signal?: AbortSignal): Promise<GoToolchain> {
  try {
    const { stdout } = await execa('go', ['env', '-json', 'GOVERSION', 'GOHOSTOS', 'GOHOSTARCH'], {
      cwd: tmpdir(),
      env: { ...environment, ...goSettings },
      extendEnv: false,
      ...(signal && { cancelSignal: signal }),
    });
    const settings = JSON.parse(stdout) as { GOVERSION: string; GOHOSTOS: string; GOHOSTARCH: string };
    return { version: settings.GOVERSION, os: settings.GOHOSTOS, architecture: settings.GOHOSTARCH };
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof ExecaError && error.code === 'ENOENT') {
      throw new GoToolchainError(
        'Go is needed to build the programs of the test cluster, and there is no `go` on PATH: install Go (https://go.dev/dl).',
        { cause: error },
      );
    }
    throw new GoToolchainError('`go env` failed: is the Go on PATH a whole one?', { cause: error });
  }
}

/**
 * @param goMod the text of a go.mod, whose `go` line says which Go is needed
 * @throws GoToolchainError if the machine's Go is older
 */
export function requireGo(go: GoToolchain, goMod: string, group: string): void {
  const needed = /^go (\S+)$/m.exec(goMod)?.[1];
  if (needed === undefined) throw new Error(`tools/programs/${group}/go.mod has no \`go\` line`);
  if (isOlder(go.version, needed)) {
    throw new GoToolchainError(
      `Go ${needed} or newer is needed (tools/programs/${group}/go.mod), and the \`go\` on PATH is ${go.version}: install a newer Go (https://go.dev/dl).`,
    );
  }
}

/** A version that is not of the form go1.2.3 (Go built from its sources) is taken to be new enough. */
function isOlder(version: string, needed: string): boolean {
  const has = numbers(version);
  const wants = numbers(needed);
  if (has === undefined || wants === undefined) return false;
  for (const [index, want] of wants.entries()) {
    const got = has[index] ?? 0;
    if (got !== want) return got < want;
  }
  return false;
}

function numbers(version: string): readonly number[] | undefined {
  const match = /^(?:go)?(\d+)\.(\d+)(?:\.(\d+))?/.exec(version);
  return match?.slice(1).map((part) => Number(part ?? 0));
}
