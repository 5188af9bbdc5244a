import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';

const repository = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(repository, path), 'utf8');

/** Instructions with their continuation lines joined, comments gone. */
const instructions = read('Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => line !== '');
const of = (keyword: string): readonly string[] => instructions.filter((line) => line.startsWith(`${keyword} `));
const lastStage = instructions.slice(instructions.findLastIndex((line) => line.startsWith('FROM ')));

describe('the Dockerfile', () => {
  test('has the very Node that the tests run on', () => {
    const { optionalDependencies } = JSON.parse(read('package.json')) as {
      optionalDependencies: Record<string, string>;
    };
    const pinned = Object.entries(optionalDependencies).filter(([name]) => name.startsWith('node-'));
    const images = of('FROM').map((line) => /docker\.io\/library\/node:([\d.]+)-/.exec(line)?.[1]);
    expect(images.filter((version) => version !== undefined)).toHaveLength(2);
    for (const [, version] of pinned) for (const image of images) expect([version, undefined]).toContain(image);
    expect(process.versions.node).toBe(pinned[0]?.[1]);
  });

  test('names every base image with its registry and a tag', () => {
    for (const line of of('FROM'))
      expect(line).toMatch(/^FROM (--platform=\S+ )?[a-z.]+\.[a-z]+\/[\w./-]+:[\w.-]+( AS [a-z-]+)?$/);
  });

  test('runs as a number that is not root, so that runAsNonRoot can be checked', () => {
    expect(lastStage.filter((line) => line.startsWith('USER '))).toEqual(['USER 65532:65532']);
  });

  test('has no shell in its last stage to run anything with', () => {
    expect(lastStage.filter((line) => /^(RUN|CMD|ADD) /.test(line))).toEqual([]);
    const entryPoint = lastStage.at(-1)?.replace(/^ENTRYPOINT /, '') ?? '';
    const [program, ...rest] = JSON.parse(entryPoint) as string[];
    expect([program, rest.pop()]).toEqual(['/usr/local/bin/node', '/app/main.js']);
    for (const flag of rest) expect(flag).toMatch(/^--/);
  });

  test('copies what is there, and .dockerignore lets it through', () => {
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
