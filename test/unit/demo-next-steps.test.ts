import { expect, test } from '@jest/globals';
import { execa } from 'execa';
import { nextSteps, quote } from '../../tools/demo/next-steps.ts';

test.each(['plain/path-1.yaml', 'with space', "it's", '$HOME `id` "x"', '', 'a\\b'])(
  'quotes %j so that a shell takes it as one word',
  async (word) => {
    const { stdout } = await execa('sh', ['-c', `printf '[%s]' ${quote(word)}`]);
    expect(stdout).toBe(`[${word}]`);
  },
);

test('the first command sets the kubeconfig and the PATH, even if they contain spaces', async () => {
  const text = nextSteps({ kubeconfig: '/some home/config', bin: "/it's/bin" });
  const command = text.split('\n').find((line) => line.includes('export ')) ?? '';
  const { stdout } = await execa('sh', ['-c', `${command}; echo "$KUBECONFIG"; echo "$PATH"`], {
    env: { PATH: '/bin' },
  });
  expect(stdout.split('\n')).toEqual(['/some home/config', expect.stringMatching(/^\/it's\/bin:/)]);
});
