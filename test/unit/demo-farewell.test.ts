import { expect, test } from '@jest/globals';
import { execa } from 'execa';
import { farewell, quote } from '../../tools/demo/farewell.ts';

test.each(['plain/path-1.yaml', 'with space', "it's", '$HOME `id` "x"', '', 'a\\b'])(
  'a shell takes %j for one word, as it is',
  async (word) => {
    const { stdout } = await execa('sh', ['-c', `printf '[%s]' ${quote(word)}`]);
    expect(stdout).toBe(`[${word}]`);
  },
);

test('the first command sets the kubeconfig and the path, also where they have spaces', async () => {
  const text = farewell({ kubeconfig: '/some home/config', bin: "/it's/bin" });
  const command = text.split('\n').find((line) => line.includes('export ')) ?? '';
  const { stdout } = await execa('sh', ['-c', `${command}; echo "$KUBECONFIG"; echo "$PATH"`], {
    env: { PATH: '/bin' },
  });
  expect(stdout.split('\n')).toEqual(['/some home/config', expect.stringMatching(/^\/it's\/bin:/)]);
});
