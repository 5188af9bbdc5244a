import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replacePart } from '@echoperator/cli';

/** The page with the warnings and errors of the log. */
export const logLinesPage = 'docs/troubleshooting.md';

export interface LogLine {
  readonly level: string;
  readonly message: string;
}

/** Returns each line that the sources log with a constant message, once, ordered by level and message. */
export async function logLines(root: string): Promise<readonly LogLine[]> {
  const files = globSync(['src/**/*.ts', 'packages/*/src/**/*.ts'], { cwd: root });
  const source = (await Promise.all(files.map((path) => readFile(join(root, path), 'utf8')))).join('\n');
  const constants = new Map([...source.matchAll(/const (\w+) = '([^']+)';/g)].map(([, name, text]) => [name, text]));
  const calls = source.matchAll(
    /log\??\.(debug|info|warn|error)\(\s*(?:\{[^}]*\}|[\w.#]+),\s*(?:'([^']+)'|"([^"]+)"|(\w+)),?\s*\)/g,
  );
  const lines = [...calls].flatMap(([, level = '', single, double, name]) => {
    const message = single ?? double ?? constants.get(name);
    return message === undefined ? [] : [`${level} ${message}`];
  });
  return [...new Set(lines)].sort().map((line) => {
    const [level = '', ...words] = line.split(' ');
    return { level, message: words.join(' ') };
  });
}

/** @throws Error if the page lacks the comments that the table stands between. */
export async function logLinesTable(root: string): Promise<readonly [path: string, content: string]> {
  const severe = (await logLines(root)).filter(({ level }) => level === 'warn' || level === 'error');
  const rows = severe.map(({ level, message }) => `| ${level} | \`${message}\` |\n`);
  const page = await readFile(join(root, logLinesPage), 'utf8');
  return [
    logLinesPage,
    replacePart(logLinesPage, page, 'log lines', `| level | msg |\n| --- | --- |\n${rows.join('')}`),
  ];
}
