import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { parse } from 'yaml';
import { nightlyLimitMs, nightlySuites } from '../run/suites.ts';

const repository = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(repository, path), 'utf8');

type Permissions = Readonly<Record<string, string>>;
type Step = { readonly uses?: string; readonly run?: string; readonly with?: Readonly<Record<string, unknown>> };
type Job = {
  readonly uses?: string;
  readonly needs?: string | readonly string[];
  readonly environment?: string;
  readonly permissions?: Permissions;
  readonly concurrency?: unknown;
  readonly 'timeout-minutes'?: number;
  readonly strategy?: { readonly matrix: Readonly<Record<string, unknown>> };
  readonly steps?: readonly Step[];
};
type Workflow = {
  readonly permissions?: Permissions;
  readonly concurrency?: unknown;
  readonly jobs: Readonly<Record<string, Job>>;
};

const folder = '.github/workflows';
const workflows = readdirSync(join(repository, folder)).map((file) => {
  const text = read(join(folder, file));
  return { file, text, workflow: parse(text) as Workflow };
});
const jobs = workflows.flatMap(({ file, workflow }) =>
  Object.entries(workflow.jobs).map(([name, job]) => ({ where: `${file}: ${name}`, name, file, job })),
);
const commands = jobs.flatMap(({ where, job }) => (job.steps ?? []).map(({ run = '' }) => ({ where, run })));
const matches = (pattern: RegExp): readonly { readonly where: string; readonly name: string }[] =>
  commands.flatMap(({ where, run }) => [...run.matchAll(pattern)].map((match) => ({ where, name: String(match[1]) })));

describe('the workflows', () => {
  test('are ci, nightly, release and site', () => {
    expect(workflows.map(({ file }) => file).sort()).toEqual(['ci.yml', 'nightly.yml', 'release.yml', 'site.yml']);
  });

  test('run every nightly suite', () => {
    const nightly = workflows.find(({ file }) => file === 'nightly.yml')?.workflow.jobs.test;
    expect(nightly?.strategy?.matrix.suite).toEqual(nightlySuites.map(({ name }) => name));
    expect(nightly?.['timeout-minutes']).toBeGreaterThan(nightlyLimitMs / 60_000);
  });

  test('call only targets of the Makefile', () => {
    const targets = [...read('Makefile').matchAll(/^([a-z0-9-]+):/gm)].map((match) => match[1]);
    for (const { where, name } of matches(/\bmake ([a-z0-9-]+)/g))
      expect({ where, name: targets.includes(name) }).toEqual({ where, name: true });
  });

  test('call only scripts of package.json', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const called = matches(/\bnpm run (?:--\S+ )*([a-z:-]+)/g);
    expect(called.length).toBeGreaterThan(0);
    for (const { where, name } of called)
      expect({ where, name, there: name in scripts }).toEqual({ where, name, there: true });
  });

  test('call only existing files', () => {
    const called = matches(/(?:^|\s)((?:\.ci|charts|tools|test)\/[\w./-]+)/gm);
    expect(called.map(({ name }) => name)).toContain('.ci/run');
    for (const { where, name } of called) {
      expect({ where, name, there: existsSync(join(repository, name)) }).toEqual({ where, name, there: true });
    }
  });

  test.each(workflows)('$file has read permission only, except for jobs that declare more', ({ workflow }) => {
    expect(workflow.permissions).toEqual({ contents: 'read' });
  });

  test('give a job only the permissions that it needs to publish', () => {
    const granted = Object.fromEntries(
      jobs.filter(({ job }) => job.permissions !== undefined).map(({ where, job }) => [where, job.permissions]),
    );
    expect(granted).toEqual({
      'release.yml: npm': { contents: 'read', 'id-token': 'write' },
      'release.yml: image': { contents: 'read', packages: 'write', 'id-token': 'write' },
      'release.yml: chart': { contents: 'write', packages: 'write', 'id-token': 'write' },
      'release.yml: release': { contents: 'write' },
      'site.yml: publish': { contents: 'write' },
    });
  });

  const release = workflows.find(({ file }) => file === 'release.yml')?.workflow.jobs ?? {};
  const reaches = (name: string, goal: string): boolean =>
    [release[name]?.needs ?? []].flat().some((need) => need === goal || reaches(need, goal));

  test('publish to npm after the image and the chart, since npm takes no version twice, and announce it last', () => {
    const order = ['image', 'chart', 'npm', 'release'];
    const pairs = order.slice(1).map((later, index) => reaches(later, order[index] ?? ''));
    expect(pairs).toEqual([true, true, true]);
  });

  test('publish what cannot be taken back only in the protected environment', () => {
    expect([release.image?.environment, release.npm?.environment]).toEqual(['release', 'release']);
  });

  test('publish a version with a hyphen as a prerelease, which is not the newest', () => {
    const marking = commands.map(({ run }) => run).filter((run) => run.includes('--prerelease'));
    expect(marking).toEqual([expect.stringMatching(/case "\$VERSION" in \*-\*\)/)]);
  });

  test('replace nothing that is published, also if a job runs again', () => {
    // The site replaces its own files, and the next test shows that it keeps the charts.
    const runs = commands.filter(({ where }) => where !== 'site.yml: publish').map(({ run }) => run);
    expect(runs.filter((run) => /helm (push|repo)|docker push|skopeo copy|npm publish|git push/.test(run))).toEqual([]);
    for (const name of ['image', 'chart', 'npm'])
      expect(JSON.stringify(release[name]?.steps)).toContain(`node tools/release/publish-once.ts ${name} `);
    expect(JSON.stringify(release.chart?.steps)).toContain('node tools/release/add-to-chart-repository.ts ');
    expect(JSON.stringify(release.release?.steps)).toContain('gh release view \\"v$VERSION\\" > view.txt || ');
  });

  test('replace the site on the branch of Pages, and keep the chart repository', async () => {
    const steps = workflows.find(({ file }) => file === 'site.yml')?.workflow.jobs.publish?.steps ?? [];
    const replace = steps.find(({ run }) => run?.includes('gh-pages'))?.run ?? '';
    const folder = await mkdtemp(join(tmpdir(), 'site-on-pages-'));
    const [origin, clone, site] = ['origin', 'clone', 'site'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    const git = (cwd: string, ...args: readonly string[]) =>
      execa('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd });
    const publish = () =>
      execa('bash', ['-e', '-c', replace], {
        cwd: clone,
        env: { RUNNER_TEMP: folder, GITHUB_SHA: '0123456789abcdef' },
      });
    const published = async () =>
      (await git(origin, 'ls-tree', '-r', '--name-only', 'gh-pages')).stdout.split('\n').sort();
    try {
      await git(folder, 'init', '--quiet', '--initial-branch=main', origin);
      await git(origin, 'commit', '--quiet', '--allow-empty', '--message=code');
      await git(folder, 'clone', '--quiet', origin, clone);
      await mkdir(join(site, 'docs'), { recursive: true });
      await writeFile(join(site, 'docs/old.html'), 'old');
      // There is no branch yet.
      await publish();
      expect(await published()).toEqual(['.nojekyll', 'docs/old.html']);
      // A release adds a chart.
      const pages = join(folder, 'pages');
      for (const name of ['index.yaml', 'echoperator-1.0.0.tgz']) await writeFile(join(pages, name), name);
      await git(pages, 'add', '--all');
      await git(pages, 'commit', '--quiet', '--message=chart');
      await git(pages, 'push', '--quiet', 'origin', 'gh-pages');
      await git(clone, 'worktree', 'remove', pages);
      await rm(join(site, 'docs'), { recursive: true });
      await writeFile(join(site, 'new.html'), 'new');
      await publish();
      expect(await published()).toEqual(['.nojekyll', 'echoperator-1.0.0.tgz', 'index.yaml', 'new.html']);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('push to the branch of Pages one after the other, and cancel neither', () => {
    const pushing = jobs.filter(({ job }) => /gh-pages|add-to-chart-repository/.test(JSON.stringify(job.steps)));
    expect(pushing.map(({ where }) => where).sort()).toEqual(['release.yml: chart', 'site.yml: publish']);
    const group = { group: 'gh-pages', 'cancel-in-progress': false };
    expect(pushing.map(({ job }) => job.concurrency)).toEqual([group, group]);
    // So each workflow has at most one job in the group, and GitHub cancels none that waits.
    const ofWorkflows = workflows.filter(({ file }) => ['release.yml', 'site.yml'].includes(file));
    expect(ofWorkflows.map(({ workflow }) => workflow.concurrency)).toEqual([
      { group: 'release', 'cancel-in-progress': false },
      { group: 'site', 'cancel-in-progress': false },
    ]);
  });

  test('lint the workflows for each push', () => {
    const ci = jobs.filter(({ file }) => file === 'ci.yml').flatMap(({ job }) => job.steps ?? []);
    expect(ci.map(({ run }) => run)).toContain('make test-nightly SUITE=nightly-workflows');
  });

  test('install packages without their scripts', () => {
    const files = [...workflows, ...['Makefile', 'Dockerfile'].map((file) => ({ file, text: read(file) }))];
    const installs = files.flatMap(({ file, text }) =>
      [...text.matchAll(/^(?!\s*#).*\bnpm (?:ci|install)\b(?!\)).*$/gm)].map(([line]) => ({ file, line })),
    );
    expect(installs.length).toBeGreaterThan(2);
    for (const install of installs)
      expect(install).toEqual({ ...install, line: expect.stringContaining('npm ci --ignore-scripts') });
  });

  test('hold the tokens to publish only in jobs that run none of our packages, and that publish what others have built', () => {
    const publishing = jobs.filter(({ job }) => job.permissions !== undefined || job.environment !== undefined);
    expect(publishing.length).toBeGreaterThan(3);
    for (const { where, name, file, job } of publishing) {
      const text = JSON.stringify(job.steps);
      expect({ where, text }).toEqual({
        where,
        text: expect.not.stringMatching(/npm (ci|install|run|exec)|npx|build-push-action/),
      });
      expect({ where, text }).toEqual({ where, text: expect.stringContaining('actions/download-artifact@') });
      const needsBuild = file === 'release.yml' ? reaches(name, 'build') : job.needs === 'build';
      expect({ where, built: needsBuild }).toEqual({ where, built: true });
    }
    for (const { where, job } of jobs.filter(({ job }) => JSON.stringify(job.steps ?? []).includes('upload-artifact')))
      expect({ where, permissions: job.permissions, environment: job.environment }).toEqual({ where });
  });

  test('run scripts without installed packages where they publish', () => {
    const scripts = jobs
      .filter(({ job }) => job.permissions !== undefined)
      .flatMap(({ job }) => job.steps ?? [])
      .flatMap(({ run = '' }) => [...run.matchAll(/\bnode (\S+\.ts)/g)].map(([, path = '']) => path));
    expect(new Set(scripts)).toEqual(
      new Set(['tools/release/publish-once.ts', 'tools/release/add-to-chart-repository.ts']),
    );
    for (const path of new Set(scripts))
      for (const [, imported] of read(path).matchAll(/^import .* from '(.*)';$/gm)) expect(imported).toMatch(/^node:/);
  });

  test('release only a commit of main', async () => {
    const check = release.build?.steps?.find(({ run }) => run?.includes('merge-base'))?.run ?? '';
    const folder = await mkdtemp(join(tmpdir(), 'commit-of-main-'));
    const [origin, clone] = [join(folder, 'origin'), join(folder, 'clone')];
    const identity = {
      GIT_AUTHOR_NAME: 'a',
      GIT_AUTHOR_EMAIL: 'a@b',
      GIT_COMMITTER_NAME: 'a',
      GIT_COMMITTER_EMAIL: 'a@b',
    };
    const git = async (cwd: string, ...args: readonly string[]) =>
      (await execa('git', args, { cwd, env: identity })).stdout;
    try {
      await git(folder, 'init', '--quiet', '--initial-branch=main', origin);
      const commit = async (message: string): Promise<string> => {
        await git(origin, 'commit', '--quiet', '--allow-empty', `--message=${message}`);
        return git(origin, 'rev-parse', 'HEAD');
      };
      const onMain = await commit('released');
      const head = await commit('later');
      await git(origin, 'switch', '--quiet', '--create=other');
      const elsewhere = await commit('never reviewed');
      await git(folder, 'clone', '--quiet', origin, clone);
      const exitCodeFor = async (commitOfTag: string): Promise<number | undefined> =>
        (await execa('bash', ['-e', '-c', check], { cwd: clone, env: { GITHUB_SHA: commitOfTag }, reject: false }))
          .exitCode;
      expect([await exitCodeFor(onMain), await exitCodeFor(head), await exitCodeFor(elsewhere)]).toEqual([0, 0, 1]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('publish only after the tests have passed', () => {
    const publishing = Object.keys(release).filter((name) => release[name]?.permissions !== undefined);
    expect(publishing.filter((name) => !reaches(name, 'test') || !reaches(name, 'nightly'))).toEqual([]);
    expect(release.test?.uses).toBe('./.github/workflows/ci.yml');
    expect(release.nightly?.uses).toBe('./.github/workflows/nightly.yml');
  });

  test('release no image whose base images have no digest', async () => {
    const check = release.build?.steps?.find(({ run }) => run?.includes('Dockerfile'))?.run ?? '';
    expect(reaches('image-archive', 'build')).toBe(true);
    const folder = await mkdtemp(join(tmpdir(), 'base-images-'));
    try {
      const exitCodeFor = async (dockerfile: string): Promise<number | undefined> => {
        await writeFile(join(folder, 'Dockerfile'), dockerfile);
        // As GitHub runs a step.
        return (await execa('bash', ['-e', '-c', check], { cwd: folder, reject: false })).exitCode;
      };
      const pinned = `FROM example.com/base:1@sha256:${'0'.repeat(64)} AS one\n`;
      expect(await exitCodeFor(pinned)).toBe(0);
      expect(await exitCodeFor(`${pinned}FROM example.com/base:1\n`)).toBe(1);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('publish the packages that the job `build` has packed, not the repository', () => {
    const published = commands.flatMap(({ run }) =>
      [...run.matchAll(/publish-once\.ts npm (\S+)/g)].map(([, what]) => what),
    );
    expect(published).toEqual(['"$RUNNER_TEMP"/release/npm/*.tgz']);
    expect(JSON.stringify(release.build?.steps)).toContain('node tools/release/pack.ts ');
    expect(JSON.parse(read('package.json'))).toMatchObject({ private: true });
  });

  test('pin each action by commit, with its version in a comment', () => {
    const uses = workflows.flatMap(({ text }) =>
      [...text.matchAll(/^\s*(?:- )?uses: (.+)$/gm)].map((match) => match[1]),
    );
    const foreign = uses.filter((action) => !action?.startsWith('./'));
    expect(foreign.length).toBeGreaterThan(5);
    for (const action of foreign) expect(action).toMatch(/^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  test('install a Go version that every module accepts', () => {
    const goOf = (file: string): readonly number[] =>
      (/^go ([\d.]+)$/m.exec(read(file))?.[1] ?? '').split('.').map(Number);
    const isOlder = (one: readonly number[], other: readonly number[]): boolean => {
      const differs = other.findIndex((part, index) => part !== one[index]);
      return differs !== -1 && (one[differs] ?? 0) < (other[differs] ?? 0);
    };
    const modules = readdirSync(join(repository, 'tools'), { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('go.mod'),
    );
    expect(modules.length).toBeGreaterThan(3);
    const named = workflows.flatMap(({ text }) => [...text.matchAll(/go-version-file: (\S+)/g)]);
    expect(named.length).toBeGreaterThan(0);
    for (const [, file = ''] of named) {
      expect(modules.filter((module) => isOlder(goOf(file), goOf(`tools/${module}`)))).toEqual([]);
    }
  });

  test('use the same commit of each action', () => {
    const all = workflows.flatMap(({ text }) => [...text.matchAll(/uses: (\S+)@([0-9a-f]{40})/g)]);
    const commits = new Map<string, Set<string>>();
    for (const [, action = '', commit = ''] of all) commits.set(action, (commits.get(action) ?? new Set()).add(commit));
    expect([...commits].filter(([, found]) => found.size > 1)).toEqual([]);
  });

  test('insert no untrusted text into a shell script', () => {
    for (const { where, run } of commands)
      expect({ where, run }).toEqual({ where, run: expect.not.stringContaining('${{') });
  });

  test('have a time limit and run one at a time', () => {
    const endless = jobs.filter(({ job }) => job.uses === undefined && job['timeout-minutes'] === undefined);
    expect(endless.map(({ where }) => where)).toEqual([]);
    expect(workflows.filter(({ workflow }) => workflow.concurrency === undefined)).toEqual([]);
  });
});
