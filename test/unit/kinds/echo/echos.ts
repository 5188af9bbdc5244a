import type { ObjectMeta } from '@echoperator/runtime/client';
import { Job } from '@echoperator/runtime/kinds';
import { childManifest } from '../../../../packages/runtime/src/controller/owned-children.ts';
import { echoJob } from '../../../../src/kinds/echo/echo-job.ts';
import { Echo } from '../../../../src/kinds/echo/kind.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';

const creationTimestamp = '2026-01-01T00:00:00Z';

/** An Echo as the API server stores it, of generation 1 unless `metadata` says otherwise. */
export function echoOf(
  rest: {
    readonly metadata?: Partial<Echo['metadata']>;
    readonly spec?: Echo['spec'];
    readonly status?: NonNullable<Echo['status']>;
  } = {},
): Echo {
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
    spec: rest.spec ?? { message: 'Hola' },
    ...(rest.status && { status: rest.status }),
  };
}

/** The Job that the operator made for the Echo, in this state. */
export function jobOf(echo: Echo, status: NonNullable<Job['status']> = {}, metadata: Partial<ObjectMeta> = {}): Job {
  const manifest = childManifest({ kind: Echo, object: echo }, Job, echoJob(echo, podSettings));
  return {
    ...manifest,
    metadata: { uid: 'uid-job', resourceVersion: '6', creationTimestamp, ...manifest.metadata, ...metadata },
    status,
  };
}

const startTime = '2026-01-01T00:00:01Z';
const completionTime = '2026-01-01T00:00:02Z';

const condition = (type: string, rest: object) => ({ type, status: 'True', ...rest });

/** States of a Job, as the job controller writes them. */
export const complete = { startTime, completionTime, succeeded: 1, conditions: [condition('Complete', {})] };
export const failed = { startTime, failed: 1, conditions: [condition('Failed', { message: 'too often' })] };
