import { describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { printPod } from '../../../../src/kinds/shared/print-pod.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

const containerOf = (message: string) => {
  const container = printPod({ message }, podSettings).spec?.containers[0];
  if (container === undefined) throw new Error('the pod has no container');
  return container;
};
const commandOf = (message: string): readonly string[] => containerOf(message).command ?? [];

/**
 * What the kubelet makes of a part of a command (third_party/forked/golang/expansion): `$$` is a dollar, `$(NAME)` the
 * variable or, where there is none, itself; every other dollar stays.
 */
function expanded(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\$(?:\$|\(([^)]*)\))/g, (reference, name: string | undefined) =>
    name === undefined ? '$' : (variables[name] ?? reference),
  );
}

const variables = { HOME: '/root', A: 'expanded', '': 'nameless', 'A A': 'blank', $: 'dollar', '(': 'bracket' };

describe('the rule of the kubelet, as written here', () => {
  // From the table of its own tests (expand_test.go).
  test.each([
    ['$(A)', 'expanded'],
    ['___$(A)___', '___expanded___'],
    ['$$(A)', '$(A)'],
    ['$$$(A)', '$expanded'],
    ['$$$$(A)', '$$(A)'],
    ['$(MISSING)', '$(MISSING)'],
    ['$A', '$A'],
    ['$(A', '$(A'],
    ['$', '$'],
    ['$$', '$'],
    ['foo$(', 'foo$('],
    ['$)(A)', '$)(A)'],
    ['$()', 'nameless'],
  ])('%s', (text, result) => {
    expect(expanded(text, variables)).toBe(result);
  });
});

describe('printf receives the message unchanged', () => {
  const hard = fc.string({
    unit: fc.constantFrom('$', '$(', '(', ')', '$(HOME)', '$$', 'A', ' ', '\\', '\\n', '%', '"', "'", '\n', '世', '👋'),
    maxLength: 30,
  });
  const message = fc.oneof(hard, fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }));

  test('for any message, and nothing else is expanded', () => {
    fc.assert(
      fc.property(message, (text) => {
        expect(commandOf(text).map((part) => expanded(part, variables))).toEqual(['printf', '%s\\n', text]);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('printf prints the message unchanged', () => {
  const [first = '', ...rest] = commandOf('');
  test.each([
    '-n',
    '--help',
    '-e \\n',
    '\\n\\t\\x41\\c',
    '%s %d %%',
    'it\'s "quoted" `here`',
    '$(HOME) $$ $HOME',
    'two\nlines\n',
    ' blanks ',
    'Hola, 世界! 👋',
  ])('%j', async (message) => {
    const parts = commandOf(message).map((part) => expanded(part, variables));
    expect(parts.slice(0, -1)).toEqual([first, ...rest.slice(0, -1)]);
    const { stdout } = await execa(first, parts.slice(1), { stripFinalNewline: false });
    expect(stdout).toBe(`${message}\n`);
  });
});

test('the pod fits the Pod Security Standard restricted', () => {
  const { spec } = printPod({ message: 'Hola' }, { ...podSettings, image: 'mirror.example/busybox:1.36' });
  expect(spec).toMatchObject({
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  });
  expect(containerOf('Hola')).toMatchObject({
    image: 'busybox:1.36',
    imagePullPolicy: 'IfNotPresent',
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
  });
  expect(spec?.containers[0]?.image).toBe('mirror.example/busybox:1.36');
});
