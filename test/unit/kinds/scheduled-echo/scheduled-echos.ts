import type { ObjectMeta } from '@echoperator/runtime/client';
import { CronJob } from '@echoperator/runtime/kinds';
import { childManifest } from '../../../../packages/runtime/src/controller/owned-children.ts';
import { cronJobOf, newCronJobName } from '../../../../src/kinds/scheduled-echo/cron-job.ts';
import { ScheduledEcho } from '../../../../src/kinds/scheduled-echo/kind.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';

const creationTimestamp = '2026-01-01T00:00:00Z';

/** A ScheduledEcho as the API server stores it, of generation 1 unless `metadata` says otherwise. */
export function scheduledEchoOf(
  rest: {
    readonly metadata?: Partial<ScheduledEcho['metadata']>;
    readonly spec?: Partial<ScheduledEcho['spec']>;
    readonly status?: NonNullable<ScheduledEcho['status']>;
  } = {},
): ScheduledEcho {
  return {
    metadata: {
      name: 'hello',
      namespace: 'default',
      uid: 'uid-hello',
      resourceVersion: '5',
      generation: 1,
      creationTimestamp,
      ...rest.metadata,
    },
    spec: { message: 'Hola', schedule: '@hourly', ...rest.spec },
    ...(rest.status && { status: rest.status }),
  };
}

/** The CronJob that the operator made for it, as far as the operator knows. */
export function cronJobFor(echo: ScheduledEcho, metadata: Partial<ObjectMeta> = {}): CronJob {
  const owner = { kind: ScheduledEcho, object: echo };
  const manifest = childManifest(owner, CronJob, cronJobOf(echo, newCronJobName(echo), podSettings));
  return {
    ...manifest,
    metadata: { uid: 'uid-cronjob', resourceVersion: '6', creationTimestamp, ...manifest.metadata, ...metadata },
  };
}
