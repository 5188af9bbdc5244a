import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePorts } from '../../testkit/free-ports.ts';
import { DocumentedSteps } from '../e2e/environment/documented.ts';
import { cluster, connect } from './environment/cluster.ts';

/** The commands that the pages show for a release that runs, in the namespaces of the pages. */

const root = join(import.meta.dirname, '../..');
const examples = ['echo', 'scheduled-echo', 'pod-set'].map(
  (name) => `--filename=${join(root, `examples/${name}.yaml`)}`,
);

beforeAll(connect);

afterAll(() => cluster.kubectl(['delete', '--ignore-not-found', ...examples, '--timeout=90s']));

/** The scripts of a page or of a section, with the objects of the examples in place of the placeholders. */
async function scriptsOf(page: string, section?: string): Promise<readonly string[]> {
  const { scripts } = await DocumentedSteps.of(page, section);
  return scripts.map((script) => script.replaceAll('NAMESPACE', 'default').replaceAll('NAME', 'hello-world'));
}

/** Finding nothing is an answer too. */
const grep = 'grep() { command grep "$@" || test $? = 1; }\n';

const run = (script: string): Promise<string> => cluster.shell(grep + script, root);

/** The columns of a table that kubectl prints. */
const columns = (table: string): readonly string[] | undefined =>
  table
    .split('\n')
    .find((line) => line.startsWith('NAME'))
    ?.split(/\s+/);

test('docs/echo.md: prints the message, finds its log, and waits for an update', async () => {
  const [example = '', logs = '', update = '', ...others] = await scriptsOf('echo.md');
  expect(others).toEqual([]);
  expect(await run(example)).toContain('\nHola, 世界!');
  expect(await run(logs)).toMatch(/^Hola, 世界!\n\[pod\/.*Hola, 世界!$/s);
  await run(`kubectl patch echo hello-world --type=merge --patch '{"spec":{"message":"Adiós"}}'`);
  await run(update);
  expect(await run(logs)).toMatch(/^Adiós\n/);
});

test('docs/scheduled-echo.md: the example is scheduled', async () => {
  const [example = '', ...others] = await scriptsOf('scheduled-echo.md');
  expect(others).toEqual([]);
  expect(await run(example)).toMatch(/^hello-scheduled-world +\*\/1 \* \* \* \* +True /m);
});

test('docs/pod-set.md: the example has the pods that it asks for', async () => {
  const { allCommands } = await DocumentedSteps.of('pod-set.md');
  // The release of this suite has the controller already.
  const [upgrade, ...others] = allCommands;
  expect(upgrade).toMatch(/^helm upgrade/);
  const shown = await run(others.join('\n'));
  expect(columns(shown)).toEqual(['NAME', 'DESIRED', 'CURRENT', 'READY', 'REASON', 'AGE']);
  expect(shown).toMatch(/example-podset +3 +3 +3 +PodsReady/);
});

describe('docs/operations.md', () => {
  test('the probe of the leader answers', async () => {
    const [script = '', ...others] = await scriptsOf('operations.md', 'Probes');
    expect(others).toEqual([]);
    const [port] = await freePorts();
    // A reader waits until the port is forwarded.
    const curl = 'curl() { command curl --retry 20 --retry-delay 1 --retry-connrefused "$@"; }\ntrap "kill %1" EXIT\n';
    const onFreePort = script.replace('8081 &', `${port}:8081 &`).replace('localhost:8081', `localhost:${port}`);
    expect(onFreePort).toContain(`localhost:${port}`);
    expect(await run(curl + onFreePort)).toMatch(/^ok$/m);
  });

  test('explain tells of an Echo', async () => {
    await run('kubectl apply --filename examples/echo.yaml\nkubectl wait --for=condition=Ready echo/hello-world');
    const [script = '', ...others] = await scriptsOf('operations.md', 'Explain');
    expect(others).toEqual([]);
    const story = await run(script.replace('echo/hello ', 'echo/hello-world '));
    expect(story).toMatch(/^Echo default\/hello-world\n/);
    expect(story).toMatch(/^leader: .*, this replica, since /m);
  });
});

test('docs/troubleshooting.md: the pods, and the log of the leader', async () => {
  const [script = '', ...others] = await scriptsOf('troubleshooting.md');
  expect(others).toEqual([]);
  expect(await run(script)).toMatch(/^NAME .*^\{"level":30/ms);
});

describe('docs/alerts.md', () => {
  test('finds the leader, and runs the commands of every runbook', async () => {
    await run('kubectl apply --filename examples/echo.yaml');
    const [leader = '', ...runbooks] = await scriptsOf('alerts.md');
    expect(leader).toMatch(/^LEADER=/);
    expect(await run(`${leader}\nkubectl --namespace echoperator get pod "$LEADER" --output=name`)).toMatch(/^pod\//);
    expect(runbooks).toHaveLength(6);
    // No container of this release has ended.
    for (const runbook of runbooks) await run(`${leader}\n${runbook.replace(' --previous', '')}`);
  });
});
