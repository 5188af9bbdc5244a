import type { Client, ObjectKey } from '@echoperator/runtime';
import { Pod } from '@echoperator/runtime/kinds';

/** Writes the status that a kubelet reports for a pod whose image cannot be pulled. */
export async function failPull(client: Client, pod: ObjectKey, image: string): Promise<void> {
  const state = { waiting: { reason: 'ImagePullBackOff', message: `Back-off pulling image "${image}"` } };
  const containerStatuses = [{ name: 'c', image, imageID: '', ready: false, restartCount: 0, state }];
  const body = { status: { phase: 'Pending', containerStatuses } };
  await client.patch(Pod, pod, { type: 'merge', body }, { subresource: 'status' });
}
