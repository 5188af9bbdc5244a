import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { withoutDigests } from '../../tools/release/image.ts';

const repository = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(repository, path), 'utf8');

/** The instructions, with continuation lines joined and without comments. */
const instructions = read('Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => line !== '');
const of = (keyword: string): readonly string[] => instructions.filter((line) => line.startsWith(`${keyword} `));
/** Returns the instructions of the stage with this index. */
const stage = (index: number): readonly string[] => {
  const from = instructions.indexOf(of('FROM').at(index) ?? '');
  const rest = instructions.slice(from + 1);
  const end = rest.findIndex((line) => line.startsWith('FROM '));
  return end === -1 ? rest : rest.slice(0, end);
};
/** The stages that become images. */
const images: readonly (readonly [name: string, stage: readonly string[]])[] = [
  ['pet store', stage(-2)],
  ['operator', stage(-1)],
];

describe('the Dockerfile', () => {
  test('uses the Node version of the tests', () => {
    const { optionalDependencies } = JSON.parse(read('package.json')) as {
      optionalDependencies: Record<string, string>;
    };
    const pinned = Object.entries(optionalDependencies).filter(([name]) => name.startsWith('node-'));
    const bases = of('FROM').map((line) => /docker\.io\/library\/node:([\d.]+)-/.exec(line)?.[1]);
    expect(bases.filter((version) => version !== undefined)).toHaveLength(2);
    for (const [, version] of pinned) for (const base of bases) expect([version, undefined]).toContain(base);
    expect(process.versions.node).toBe(pinned[0]?.[1]);
  });

  test('names every base image with registry and tag, and with the digest once Renovate has pinned it', () => {
    for (const line of of('FROM')) {
      expect(line).toMatch(
        /^FROM (--platform=\S+ )?[a-z.]+\.[a-z]+\/[\w./-]+:[\w.-]+(@sha256:[0-9a-f]{64})?( AS [a-z-]+)?$/,
      );
    }
    const { extends: presets, enabledManagers } = JSON.parse(read('.github/renovate.json')) as {
      readonly extends: readonly string[];
      readonly enabledManagers: readonly string[];
    };
    expect(presets).toContain('docker:pinDigests');
    expect(enabledManagers).toContain('dockerfile');
  });

  test('is built from local base images without their digests', () => {
    const pinned = `@sha256:${'0'.repeat(64)}`;
    const dockerfile = `FROM example.com/base:1${pinned} AS one\nCOPY a${pinned} /\nFROM example.com/base:2${pinned}\n`;
    expect(withoutDigests(dockerfile)).toBe(
      `FROM example.com/base:1 AS one\nCOPY a${pinned} /\nFROM example.com/base:2\n`,
    );
  });

  test.each(images)('runs the %s as a numeric user that is not root, which runAsNonRoot requires', (_, lines) => {
    expect(lines.filter((line) => line.startsWith('USER '))).toEqual(['USER 65532:65532']);
  });

  test.each(images)('runs nothing in a shell in the image of the %s', (_, lines) => {
    expect(lines.filter((line) => /^(RUN|ADD|CMD [^[]|ENTRYPOINT [^[])/.test(line))).toEqual([]);
    const entryPoint = lines.find((line) => line.startsWith('ENTRYPOINT '))?.replace(/^ENTRYPOINT /, '') ?? '';
    const [program, ...rest] = JSON.parse(entryPoint) as string[];
    expect([program, rest.pop()]).toEqual(['/usr/local/bin/node', '/app/main.js']);
    for (const flag of rest) expect(flag).toMatch(/^--/);
  });

  test('builds the pet store as a target, and the operator by default', () => {
    expect(of('FROM').at(-2)).toMatch(/ AS petstore$/);
    expect(of('FROM').at(-1)).not.toMatch(/ AS /);
    expect(stage(-2)).toContain('CMD ["serve"]');
    expect(stage(-1).filter((line) => line.startsWith('CMD '))).toEqual([]);
  });

  test('copies only existing files that .dockerignore includes', () => {
    const ignore = read('.dockerignore').split('\n');
    const sources = of('COPY')
      .filter((line) => !line.includes('--from='))
      .flatMap((line) => line.split(' ').slice(1, -1));
    expect(sources).toContain('src');
    for (const source of sources) {
      expect({ source, there: existsSync(join(repository, source)) }).toEqual({ source, there: true });
      expect(ignore).toContain(`!${source}`);
    }
    expect(ignore).toContain('*');
  });
});
