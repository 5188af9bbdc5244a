/**
 * The controller runtime: what an operator in TypeScript needs, importable alone.
 *
 * The parts, in the order in which a change travels:
 * - A **Kind** names a resource type of the API; `defineKind` declares one of your own, with its schema and its CRD.
 * - The **Client** reads and writes objects, typed by kind.
 * - A **Reflector** lists and watches a kind and keeps a **Store** equal to it; an **Index** finds objects in the store.
 * - An **Informer** is a kind's reflector and store, shared by all who watch it.
 * - A **Predicate** tells whether a change matters; what matters becomes a key in the **WorkQueue**.
 * - A **Controller** takes keys from its queue and has a **Reconciler** bring each object's world to what it asks for.
 * - An **Outcome** is how a reconcile ended: an **OutcomeReporter** turns it into the status, an Event and the next try.
 * - An **Applier** makes the objects that a controller owns be as they are wanted, and writes only what differs.
 * - The **Manager** owns informers and controllers, starts and stops them in order.
 * - A **LeaderElector** contends for a **Lease**, so that of several processes one works, and has the fence that its requests
 *   pass.
 * - The **EventRecorder**, **Metrics** and probes tell what is going on.
 * - **runOperator** puts all of them together, in a process of its own.
 */
export * from './apply/index.ts';
export * from './cache/index.ts';
export * from './client/index.ts';
export * from './controller/index.ts';
export * from './kind/index.ts';
export * from './leader-election/index.ts';
export * from './manager/index.ts';
export * from './observability/index.ts';
export * from './process/index.ts';
export * from './queue/index.ts';
