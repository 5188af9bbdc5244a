/**
 * Brings the version of package.json to the chart, the changelog and the generated files. npm runs it in `npm version
 * 1.2.3`, which has changed package.json, and then commits and tags what is staged.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { parser, Release } from 'keep-a-changelog';
import { sectionOf } from './release-notes.ts';

const root = join(import.meta.dirname, '../..');
const repositoryUrl = 'https://github.com/echoperator/echoperator';

/**
 * Turns the unreleased section of the changelog into that of a version, above which it adds an empty one.
 *
 * @throws ReleaseError if nothing has changed
 */
export function releasedChangelog(text: string, version: string, date: Date): string {
  sectionOf(text, 'Unreleased');
  const changelog = parser(text);
  changelog.format = 'markdownlint';
  changelog.url = repositoryUrl;
  changelog.tagNameBuilder = (release) => `v${release.version}`;
  const unreleased = changelog.findRelease();
  unreleased?.setVersion(version);
  unreleased?.setDate(date);
  changelog.addRelease(new Release());
  return changelog.toString();
}

/** Sets the version of the chart and of its application. */
export const chartWithVersion = (text: string, version: string): string =>
  text.replace(/^version: .*$/m, `version: ${version}`).replace(/^appVersion: .*$/m, `appVersion: "${version}"`);

async function main(): Promise<void> {
  const read = (file: string): Promise<string> => readFile(join(root, file), 'utf8');
  const { version } = JSON.parse(await read('package.json')) as { readonly version: string };
  const files = ['CHANGELOG.md', 'charts/echoperator/Chart.yaml'] as const;
  const [changelog, chart] = await Promise.all(files.map(read));
  await writeFile(join(root, files[0]), releasedChangelog(changelog ?? '', version, new Date()));
  await writeFile(join(root, files[1]), chartWithVersion(chart ?? '', version));
  await execa('npm', ['run', '--silent', 'generate'], { cwd: root, stdio: 'inherit' });
  await execa('git', ['add', '--update'], { cwd: root });
}

if (import.meta.main) await main();
