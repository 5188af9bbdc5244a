import { describe, expect, test } from '@jest/globals';
import {
  formatDescription,
  parseDescription,
} from '../../../../../packages/runtime/src/leader-election/crash-detection/container-instance.ts';

const container = {
  namespace: 'ops',
  podName: 'operator-0',
  podUid: 'uid-1',
  containerName: 'operator',
  containerId: 'containerd://1',
  terminationToken: 'token-1',
};

describe('the description of a container instance', () => {
  test('is parsed as it was formatted', () => {
    expect(parseDescription(formatDescription('me', container), 'me')).toEqual(container);
  });

  test('does not count for another holder: a candidate in Go leaves annotations unchanged', () => {
    expect(parseDescription(formatDescription('me', container), 'go')).toBeUndefined();
  });

  test.each(Object.keys(container))('does not count if %s is missing, empty or no string', (field) => {
    for (const value of [undefined, '', 7, {}]) {
      const description = JSON.stringify({ holderIdentity: 'me', ...container, [field]: value });
      expect(parseDescription(description, 'me')).toBeUndefined();
    }
  });

  test.each(['null', '7', '"text"', '{', '[]', 'no JSON', '{"holderIdentity":"me"}'])(
    'does not count as %s',
    (text) => {
      expect(parseDescription(text, 'me')).toBeUndefined();
    },
  );

  test('keeps the format that earlier versions read and write', () => {
    expect(JSON.parse(formatDescription('me', container))).toEqual({ holderIdentity: 'me', ...container });
  });
});
