import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');

/** What the runtime publishes for programs, as the files of `src` import it. */
const runtimeEntries = ['', 'kinds/', 'client/', 'cache/', 'controller/', 'process/', 'leader-election/'].map(
  (entry) => `./runtime/${entry}index.ts`,
);

/**
 * Who may import what: for a file of each layer what it may import, and what it may not. The lint matches what is
 * written in the import, so each is written as that file would have to.
 */
const layers: Readonly<Record<string, { readonly allowed: readonly string[]; readonly forbidden: readonly string[] }>> =
  {
    'src/runtime/kind/planted.ts': {
      allowed: ['../client/index.ts', '../kinds/index.ts', '../cache/store.ts', './kind.ts', 'typebox', 'node:fs'],
      forbidden: [
        '../../kinds.ts',
        '../../kinds/echo/kind.ts',
        '../../external/batch.ts',
        '../../config.ts',
        '../../operator.ts',
        '../../runner.ts',
        '../../main.ts',
        '../../log.ts',
        '../../crds.ts',
        '../../check-uninstall.ts',
        '../../explain.ts',
        '../../petstore/main.ts',
      ],
    },
    'src/runtime/planted.ts': {
      allowed: ['./kind/index.ts', './index.ts'],
      forbidden: [
        '../kinds.ts',
        '../kinds/shared/pods.ts',
        '../config.ts',
        '../environment.ts',
        '../operator.ts',
        '../main.ts',
      ],
    },
    'src/kinds/planted/kind.ts': {
      allowed: ['../../runtime/index.ts', '../../runtime/kinds/index.ts', '../shared/limits.ts', 'typebox'],
      forbidden: [
        '../../runtime/kinds/built-in-kinds.ts',
        '../../runtime/kind/index.ts',
        '../../runtime/kind/define-kind.ts',
        '../../runtime/controller/index.ts',
        '../../external/batch.ts',
        '../../kinds.ts',
        '../../config.ts',
        '../../operator.ts',
        '../../runner.ts',
        '../../main.ts',
        '../../log.ts',
        '../../crds.ts',
        '../../check-uninstall.ts',
        '../../explain.ts',
        '../../petstore/main.ts',
        '../../petstore-wire/index.ts',
      ],
    },
    'src/kinds/planted/planted.ts': {
      allowed: [
        './kind.ts',
        '../shared/pods.ts',
        '../../external/batch.ts',
        '../../runtime/index.ts',
        '../../runtime/kinds/index.ts',
        '../../runtime/client/index.ts',
        '../../runtime/cache/index.ts',
        '../../runtime/controller/index.ts',
        '../../petstore-wire/index.ts',
      ],
      forbidden: [
        '../../runtime/process/index.ts',
        '../../runtime/leader-election/index.ts',
        '../../runtime/controller/controller.ts',
        '../../runtime/kinds/built-in-kinds.ts',
        '../../runtime/kind/object.ts',
        '../../kinds.ts',
        '../../config.ts',
        '../../operator.ts',
        '../../runner.ts',
        '../../main.ts',
        '../../log.ts',
        '../../crds.ts',
        '../../check-uninstall.ts',
        '../../explain.ts',
        '../../petstore/main.ts',
      ],
    },
    'src/external/planted.ts': {
      allowed: ['./batch.ts', '../runtime/index.ts', '../runtime/controller/index.ts'],
      forbidden: [
        '../runtime/cache/store.ts',
        '../kinds.ts',
        '../kinds/pet/controller.ts',
        '../config.ts',
        '../operator.ts',
        '../runner.ts',
        '../main.ts',
        '../petstore/main.ts',
        '../petstore-wire/index.ts',
      ],
    },
    'src/kinds.ts': {
      allowed: [
        './kinds/echo/controller.ts',
        './kinds/shared/print-pod.ts',
        './runtime/index.ts',
        './runtime/kinds/index.ts',
        './runtime/controller/index.ts',
      ],
      forbidden: [
        './runtime/kinds/built-in-kinds.ts',
        './runtime/process/index.ts',
        './config.ts',
        './environment.ts',
        './operator.ts',
        './runner.ts',
        './main.ts',
        './log.ts',
        './crds.ts',
        './check-uninstall.ts',
        './explain.ts',
        './petstore/main.ts',
      ],
    },
    'src/environment.ts': {
      allowed: ['envalid'],
      forbidden: ['./runtime/index.ts', './kinds.ts', './operator.ts', './main.ts', './petstore/settings.ts'],
    },
    'src/config.ts': {
      allowed: ['./environment.ts', './kinds.ts', 'envalid', 'node:os'],
      forbidden: [
        './runtime/index.ts',
        './runtime/kind/index.ts',
        './kinds/echo/controller.ts',
        './external/batch.ts',
        './operator.ts',
        './runner.ts',
        './main.ts',
        './log.ts',
        './crds.ts',
        './check-uninstall.ts',
        './explain.ts',
        './petstore/main.ts',
        './petstore-wire/index.ts',
      ],
    },
    'src/operator.ts': {
      allowed: ['./config.ts', './kinds.ts', './kinds/echo/kind.ts', ...runtimeEntries],
      forbidden: [
        './runtime/kinds/built-in-kinds.ts',
        './runtime/manager/index.ts',
        './runner.ts',
        './main.ts',
        './log.ts',
        './crds.ts',
        './check-uninstall.ts',
        './explain.ts',
        './external/batch.ts',
        './petstore/main.ts',
        './petstore-wire/index.ts',
      ],
    },
    'src/runner.ts': {
      allowed: ['./config.ts', './operator.ts', ...runtimeEntries],
      forbidden: [
        './runtime/client/transport.ts',
        './runtime/testing/index.ts',
        './kinds.ts',
        './kinds/echo/kind.ts',
        './main.ts',
        './log.ts',
        './crds.ts',
        './check-uninstall.ts',
        './explain.ts',
        './petstore/main.ts',
      ],
    },
    'src/crds.ts': {
      allowed: ['./runtime/index.ts', './runtime/client/index.ts'],
      forbidden: [
        './runtime/client/transport.ts',
        './kinds/echo/kind.ts',
        './config.ts',
        './operator.ts',
        './runner.ts',
        './main.ts',
        './log.ts',
        './petstore/main.ts',
      ],
    },
    'src/check-uninstall.ts': {
      allowed: ['./runtime/index.ts', './runtime/client/index.ts'],
      forbidden: ['./runtime/client/transport.ts', './kinds.ts', './kinds/echo/kind.ts', './config.ts', './main.ts'],
    },
    'src/explain.ts': {
      allowed: ['./runtime/index.ts', './runtime/process/index.ts'],
      forbidden: [
        './runtime/observability/flight-recorder.ts',
        './kinds.ts',
        './kinds/echo/kind.ts',
        './config.ts',
        './main.ts',
      ],
    },
    'src/log.ts': {
      allowed: ['pino', 'node:os'],
      forbidden: ['./runtime/index.ts', './kinds.ts', './operator.ts', './runner.ts', './main.ts'],
    },
    'src/main.ts': {
      allowed: [
        './runner.ts',
        './config.ts',
        './log.ts',
        './crds.ts',
        './check-uninstall.ts',
        './explain.ts',
        './operator.ts',
        ...runtimeEntries,
      ],
      forbidden: [
        './runtime/kinds/built-in-kinds.ts',
        './runtime/manager/index.ts',
        './kinds.ts',
        './kinds/echo/kind.ts',
        './petstore/main.ts',
      ],
    },
    'src/petstore-wire/planted.ts': {
      allowed: ['./headers.ts', './generated/petstore_pb.js', '@connectrpc/connect'],
      forbidden: [
        '../petstore/main.ts',
        '../runtime/index.ts',
        '../kinds/pet/controller.ts',
        '../kinds.ts',
        '../config.ts',
        '../operator.ts',
        '../main.ts',
      ],
    },
    'src/petstore/planted.ts': {
      allowed: ['./server.ts', '../environment.ts', '../petstore-wire/index.ts', '../runtime/index.ts', 'node:http'],
      forbidden: [
        '../kinds.ts',
        '../kinds/echo/kind.ts',
        '../config.ts',
        '../operator.ts',
        '../runner.ts',
        '../main.ts',
        '../log.ts',
        '../crds.ts',
        '../check-uninstall.ts',
        '../explain.ts',
      ],
    },
    'tools/cluster/planted.ts': {
      allowed: ['../programs/index.ts', '../progress.ts', '../../src/runtime/index.ts', './cluster.ts'],
      forbidden: ['../../test/run/suites.ts', '../../testkit/eventually.ts', '../../bench/plan.ts'],
    },
    'testkit/planted.ts': {
      allowed: [
        './eventually.ts',
        '../tools/programs/index.ts',
        '../src/runtime/index.ts',
        '../src/kinds/echo/kind.ts',
      ],
      forbidden: ['../test/run/suites.ts', '../test/unit/environment/managed.ts', '../bench/plan.ts'],
    },
    'bench/planted.ts': {
      allowed: ['./plan.ts', '../testkit/postgres-server.ts', '../tools/release/index.ts', '../src/runtime/index.ts'],
      forbidden: ['../test/run/suites.ts', '../test/integration/environment/pet-world.ts'],
    },
    'bench/failover/planted.ts': {
      allowed: ['../plan.ts', '../../testkit/free-ports.ts'],
      forbidden: ['../../test/run/suites.ts'],
    },
    'bench/test/planted.test.ts': {
      allowed: ['../plan.ts', './results.ts', '../../testkit/markdown.ts'],
      forbidden: ['../../test/unit/environment/managed.ts'],
    },
  };

/** No layer of src imports what is made around it. */
const aroundSrc = ['test/run/suites.ts', 'testkit/eventually.ts', 'tools/release/index.ts', 'bench/plan.ts'];

/** Every way to write an import. */
const forms = {
  'src/runtime/forms.ts': [
    "import { a } from '../kinds.ts';",
    "import type { b } from '../kinds.ts';",
    "import * as c from '../kinds.ts';",
    "import '../kinds.ts';",
    "export { d } from '../kinds.ts';",
    "export type { e } from '../kinds.ts';",
    "export * from '../kinds.ts';",
    "export const f = await import('../kinds.ts');",
  ],
} as const;

interface Report {
  readonly diagnostics: readonly {
    readonly category: string;
    readonly location: { readonly path: string; readonly start: { readonly line: number } };
  }[];
}

let folder: string;
/** `src/main.ts:3`: where the lint refused an import. */
let refused: ReadonlySet<string>;

const isInSrc = (file: string): boolean => file.startsWith('src/');
const forbiddenIn = (file: string): readonly string[] => [
  ...(layers[file]?.forbidden ?? []),
  ...(isInSrc(file) ? aroundSrc.map((path) => relative(dirname(file), path)) : []),
];
const linesOf = (file: string): readonly string[] => {
  const { allowed = [] } = layers[file] ?? {};
  return [...allowed, ...forbiddenIn(file)].map((specifier) => `import '${specifier}';`);
};

/**
 * Plants the files in a folder of their own, under the repository's own settings, and lints them all at once. (Biome
 * takes a file from standard input too, but then reports nothing: https://github.com/biomejs/biome/issues/10077.)
 */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'import-direction-'));
  for (const settings of ['biome.json', '.gitignore']) await cp(join(repository, settings), join(folder, settings));
  const planted = [...Object.keys(layers).map((file) => [file, linesOf(file)] as const), ...Object.entries(forms)];
  for (const [file, lines] of planted) {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), `${lines.join('\n')}\n`);
  }
  const biome = join(repository, 'node_modules/.bin/biome');
  const options = ['--only=style/noRestrictedImports', '--reporter=json', '--max-diagnostics=none'];
  const { stdout } = await execa(process.execPath, [biome, 'lint', ...options, '.'], { cwd: folder, reject: false });
  const { diagnostics } = JSON.parse(stdout) as Report;
  expect(new Set(diagnostics.map(({ category }) => category))).toEqual(new Set(['lint/style/noRestrictedImports']));
  refused = new Set(diagnostics.map(({ location }) => `${location.path}:${location.start.line}`));
});
afterAll(() => rm(folder, { recursive: true }));

describe.each(Object.entries(layers))('%s', (file, { allowed }) => {
  test.each(allowed.map((specifier, index) => [specifier, index + 1] as const))('may import %s', (_, line) => {
    expect(refused).not.toContain(`${file}:${line}`);
  });

  test.each(forbiddenIn(file).map((specifier, index) => [specifier, allowed.length + index + 1] as const))(
    'must not import %s',
    (_, line) => {
      expect(refused).toContain(`${file}:${line}`);
    },
  );
});

test.each(forms['src/runtime/forms.ts'].map((form, index) => [form, index + 1] as const))(
  'no way of importing is overlooked: %s',
  (_, line) => {
    expect(refused).toContain(`src/runtime/forms.ts:${line}`);
  },
);

test('whatever is in src is of one of these layers', async () => {
  const layered = new Set(
    Object.keys(layers)
      .filter(isInSrc)
      .map((file) => file.split('/')[1]),
  );
  expect((await readdir(join(repository, 'src'))).filter((entry) => !layered.has(entry))).toEqual([]);
});
