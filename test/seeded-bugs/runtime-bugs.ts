import type { SeededBug } from './seeded-bug.ts';

/** Bugs of the runtime. */
export const runtimeBugs: readonly SeededBug[] = [
  {
    name: 'Runtime: the cache does not show what a reconcile has written',
    file: 'packages/runtime/src/controller/reconcile-requests.ts',
    find: 'tracked.show(object);',
    replace: '',
    // After `past` the events of its two watches race, and this controller does not survive that.
    plans: { perturb: ['naive/create write 2 retried', 'naive/create write 2 stale'], explore: ['two-controllers'] },
  },
  {
    name: 'Runtime: a failed reconcile is not retried',
    file: 'packages/runtime/src/queue/work-queue.ts',
    find: `  addRateLimited(key: string): void {
    if (this.#isClosed) return;`,
    replace: `  addRateLimited(key: string): void {
    if (!this.#isClosed) return;`,
    // Another system shows nothing that would enqueue the key.
    plans: { perturb: ['pet/create'], explore: ['two-controllers'] },
  },
  {
    name: 'Runtime: a standby does not wait until the Lease has expired',
    file: 'packages/runtime/src/leader-election/observed-lease.ts',
    find: 'const durationMs = (this.#lease?.spec?.leaseDurationSeconds ?? this.#ownDurationSeconds) * 1000;',
    replace: 'const durationMs = 0;',
    plans: { explore: ['echo-of-two-replicas'] },
  },
  {
    name: 'Runtime: the finalizer is removed before the clean-up',
    file: 'packages/runtime/src/controller/object-reconciler.ts',
    find: '    if (this.#needsFinalizer(run.object)) {\n      const ending',
    replace: `    if (this.#needsFinalizer(run.object)) {
      await removeAfterCleanup(run.context.client, this.#kind, run.object, finalizer.name);
      const ending`,
    plans: { perturb: ['pet/delete'], explore: ['ledger'] },
  },
  {
    name: 'Runtime: the finalizer is not added',
    file: 'packages/runtime/src/controller/finalizer.ts',
    find: 'return finalizers.includes(name) ? object : write(client, kind, object, [...finalizers, name]);',
    replace: 'return finalizers.includes(name) ? object : object;',
    plans: { perturb: ['postgres-writer/delete write 1 unsent'], explore: ['ledger'] },
  },
  {
    name: 'Runtime: a finalizer list is written from a stale object',
    file: 'packages/runtime/src/controller/finalizer.ts',
    find: "    { op: 'add', path: '/metadata/resourceVersion', value: object.metadata.resourceVersion },\n",
    replace: '',
    plans: { perturb: ['pet/create write 1'], explore: ['ledger'] },
  },
  {
    name: 'Runtime: the status is written from a stale object',
    file: 'packages/runtime/src/client/http-client.ts',
    find: 'const body = { metadata: { resourceVersion: key.resourceVersion }, status };',
    replace: 'const body = { status };',
    plans: { perturb: ['pet/create'], explore: ['ledger'] },
  },
  {
    name: 'Runtime: a leader goes on after its Lease has expired',
    file: 'packages/runtime/src/leader-election/fence.ts',
    find: 'return maxElapsedMs(renewedAt) >= this.#renewDeadlineMs;',
    replace: 'return maxElapsedMs(renewedAt) >= 10 * this.#renewDeadlineMs;',
    plans: { explore: ['echo-of-two-replicas'] },
  },
  {
    name: 'Runtime: a child is deleted without its uid',
    file: 'packages/runtime/src/controller/owned-children.ts',
    find: '(await client.delete(kind, keyOf(child), { ...options, uid }))',
    replace: '(await client.delete(kind, keyOf(child), options))',
    plans: { perturb: ['echo/update'], explore: ['pruned'] },
  },
  {
    name: 'Runtime: an applier changes an object of another uid',
    file: 'packages/runtime/src/apply/applier.ts',
    find: 'const object = await client.apply(kind, configuration, { force: true, uid });',
    replace: 'const object = await client.apply(kind, configuration, { force: true });',
    plans: { perturb: ['scheduled-echo/update'], explore: ['pruned'] },
  },
  {
    name: 'Runtime: the DELETED event of a child is lost',
    file: 'packages/runtime/src/controller/watch.ts',
    find: 'if (!passes(predicate, delta)) return;',
    replace: "if (delta.type === 'deleted' || !passes(predicate, delta)) return;",
    // A CronJob has no pods, whose end would tell of its deletion.
    plans: { perturb: ['scheduled-echo/cron-job-deleted write 1 unsent'], explore: ['scheduled-echo'] },
  },
  {
    name: 'Runtime: MODIFIED events are lost',
    file: 'packages/runtime/src/cache/informer.ts',
    find: 'for (const delta of overlay.observe(event)) {',
    replace: `for (const delta of overlay.observe(event)) {
        if (delta.type === 'modified') continue;`,
    plans: { perturb: ['scheduled-echo/cron-job-edited write 1 unsent'], explore: ['scheduled-echo'] },
  },
  {
    name: 'Runtime: an index still has deleted objects',
    file: 'packages/runtime/src/cache/store.ts',
    find: 'if (previous !== undefined) index.remove(previous);',
    replace: '',
    plans: { perturb: ['naive/child-deleted write 1 unsent'], explore: ['naive'] },
  },
  {
    name: 'Runtime: a key that is added while a worker has it is lost',
    file: 'packages/runtime/src/queue/work-queue.ts',
    find: '    this.add(key, { priority, eventAtMs }, cause);\n    for (const other of others) this.add(key, { priority }, other);',
    replace: '',
    plans: { perturb: ['echo/update'], explore: ['two-controllers'] },
  },
  {
    name: 'Runtime: a change of the object is not noticed',
    file: 'packages/runtime/src/controller/controller.ts',
    find: 'if (passes(predicate, delta)) {',
    replace: "if (delta.type !== 'modified' && passes(predicate, delta)) {",
    plans: { mutate: ['PostgresWriter/age'], explore: ['echo'] },
  },
  {
    name: 'Runtime: lastTransitionTime changes with each status',
    file: 'packages/runtime/src/kind/condition.ts',
    find: 'current?.status === desired.status ? current.lastTransitionTime : ',
    replace: '',
    plans: { perturb: ['echo/create'], explore: ['echo'] },
  },
  {
    name: 'Runtime: the status has the generation of an earlier one',
    file: 'packages/runtime/src/controller/outcome.ts',
    find: '{ observedGeneration: generation };',
    replace: '{ observedGeneration: object.status?.observedGeneration ?? generation };',
    plans: { mutate: ['Echo/message'], explore: ['echo'] },
  },
  {
    name: 'Runtime: members of the status are not removed',
    file: 'packages/runtime/src/kind/status-patch.ts',
    find: 'return current === undefined || current === null ? undefined : null;',
    replace: 'return undefined;',
    plans: { mutate: ['Pet/name'], explore: ['ledger'] },
  },
  {
    name: 'Runtime: an applier takes a child of another owner',
    file: 'packages/runtime/src/apply/applier.ts',
    find: "if (controllerOf(object)?.uid !== ownerUid) return { type: 'nameTaken', holder: object };",
    replace: '',
    plans: { perturb: ['scheduled-echo-name-taken'], explore: ['scheduled-echo-name-taken'] },
  },
  {
    name: 'Runtime: an applier does not compare a field',
    file: 'packages/runtime/src/apply/difference.ts',
    find: 'const nested = compare(desired[name], getOwn(stored, name), fieldSchema(struct, name), isAtomic);',
    replace: `if (name === 'suspend') continue;
    const nested = compare(desired[name], getOwn(stored, name), fieldSchema(struct, name), isAtomic);`,
    plans: { mutate: ['ScheduledEcho/suspend'], explore: ['scheduled-echo-suspended-anew'] },
  },
  {
    name: 'Runtime: an applier does not remove a field',
    file: 'packages/runtime/src/apply/applier.ts',
    find: '[this.#annotation]: fieldSetHash(asStored, schemaOf(kind)),',
    replace: "[this.#annotation]: 'always equal',",
    plans: { mutate: ['ScheduledEcho/timeZone'], explore: ['scheduled-echo-zone-anew'] },
  },
  {
    name: 'Runtime: an applier does not take a field back from another manager',
    file: 'packages/runtime/src/apply/applier.ts',
    find: '{ force: true, uid }',
    replace: '{ force: false, uid }',
    plans: { perturb: ['scheduled-echo/cron-job-edited write 1 unsent'], explore: ['scheduled-echo'] },
  },
  {
    name: 'Runtime: an orphan is adopted by a second reference',
    file: 'packages/runtime/src/controller/adoption.ts',
    find: 'ownerReferences.filter((other) => other.uid !== owner.metadata.uid)',
    replace: 'ownerReferences',
    plans: { perturb: ['pod-set/pod-orphaned write 1 unsent'], explore: ['pod-set'] },
  },
];
