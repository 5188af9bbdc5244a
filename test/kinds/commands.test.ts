import { basename, join } from 'node:path';
import { customResourceDefinition } from '@echoperator/runtime';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type ControllerName, controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { freePorts } from '../../testkit/free-ports.ts';
import { exampleOf, pageOf } from '../../tools/generate/file-names.ts';
import { DocumentedSteps } from '../e2e/environment/documented.ts';
import { pagesRunElsewhere } from '../plans/index.ts';
import { cluster, connect } from './environment/cluster.ts';

/** The commands that the pages show for a release that runs, in the namespaces of the pages. */

const root = join(import.meta.dirname, '../..');
const kindsHere = controllerNames.filter((name) => !pagesRunElsewhere.includes(name));
const examples = kindsHere.map((name) => `--filename=${join(root, exampleOf(name))}`);

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

/** The rows that the commands of a page print, where more is promised than that the example is ready. */
const rows: Partial<Readonly<Record<ControllerName, RegExp>>> = {
  scheduledEcho: /^hello-scheduled-world +\*\/1 \* \* \* \* +True /m,
  podSet: /^example-podset +3 +3 +3 +PodsReady /m,
};

test.each(kindsHere.filter((name) => name !== 'echo'))(
  'the page of %s: the example becomes ready, and is shown',
  async (name) => {
    const { allCommands } = await DocumentedSteps.of(basename(pageOf(name)));
    // The release of this suite has every controller already.
    const commands = allCommands.filter((command) => !command.startsWith('helm upgrade'));
    expect(commands).toContainEqual(expect.stringMatching(/^kubectl wait --for=condition=Ready /));
    const shown = await run(commands.join('\n'));
    const [version] = customResourceDefinition(controllers[name].kind).spec.versions;
    const shownColumns = (version?.additionalPrinterColumns ?? []).filter(({ priority = 0 }) => priority === 0);
    const header = ['NAME', ...shownColumns.map((column) => column.name.toUpperCase())].join(' ');
    expect(columns(shown)?.join(' ')).toBe(header);
    expect(shown).toMatch(rows[name] ?? '');
  },
);

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
