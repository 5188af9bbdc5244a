import { ApiError } from '@echoperator/runtime/client';
import { expect, test } from '@jest/globals';
import { logForbiddenOnce } from '../../../../../packages/runtime/src/leader-election/crash-detection/crash-detector.ts';
import { RecordingLog } from '../../../../../testkit/recording-log.ts';

const forbidden = new ApiError('GET /pods', 403, { reason: 'Forbidden', message: 'pods is forbidden' });
const message = 'not allowed to read pods: the crash of a leader is noticed only when its lease expires';

test('the first 403 is a warning, later ones are debug lines, also from child loggers', () => {
  const log = new RecordingLog();
  const wrapped = logForbiddenOnce(log);
  wrapped.warn({ err: forbidden }, 'list failed');
  wrapped.warn({ err: forbidden }, 'list failed');
  wrapped.child({ kind: 'Pod' }).warn({ err: forbidden }, 'watch failed');
  expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
    ['warn', message],
    ['debug', message],
    ['debug', message],
  ]);
});

test('other warnings pass unchanged', () => {
  const log = new RecordingLog();
  const wrapped = logForbiddenOnce(log);
  wrapped.warn({ err: new Error('broken') }, 'list failed');
  wrapped.warn({ attempt: 1 }, 'slow');
  expect(log.messages('warn')).toEqual(['list failed', 'slow']);
});
