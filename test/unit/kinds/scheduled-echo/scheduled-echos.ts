import type { ScheduledEcho } from '../../../../src/kinds/scheduled-echo/kind.ts';

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
