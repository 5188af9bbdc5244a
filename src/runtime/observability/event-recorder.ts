import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { EventsV1Event } from '@kubernetes/client-node';
import type { Client } from '../client/index.ts';
import { apiVersionOf, builtInKind, type Kind, type KubeObject, keyOf } from '../kind/index.ts';
import type { Logger } from './logger.ts';

const Event = builtInKind<EventsV1Event>({ group: 'events.k8s.io', version: 'v1', kind: 'Event', plural: 'events' });

/** What happened to an object, for `kubectl describe`. */
export interface EventNotice {
  readonly type: 'Normal' | 'Warning';
  /** One CamelCase word: why. */
  readonly reason: string;
  /** One CamelCase word: what was done. */
  readonly action: string;
  /** For a person. Cut at 1,024 bytes, the API's limit. */
  readonly note: string;
}

/** More Events than this under way at once are dropped: they are a courtesy, never worth the memory. */
const maxPending = 1000;

/** Writes Events beside the work: nobody waits for one, and a failure is a line in the log. */
export class EventRecorder {
  readonly #client: Client;
  readonly #controller: string;
  readonly #instance: string;
  readonly #log: Logger;
  readonly #pending = new Set<Promise<void>>();

  constructor(options: {
    readonly client: Client;
    /** A qualified name: `echoperator.mmontes.io/echo`. */
    readonly controller: string;
    /** Which process: the pod's name. */
    readonly instance: string;
    readonly log: Logger;
  }) {
    this.#client = options.client;
    this.#controller = options.controller;
    this.#instance = options.instance;
    this.#log = options.log;
  }

  /** Begins to write an Event about `object`, in its namespace; returns at once and never throws. */
  record(kind: Kind, object: KubeObject, notice: EventNotice): void {
    if (this.#pending.size >= maxPending) {
      this.#log.warn({ reason: notice.reason }, 'too many events under way: one is dropped');
      return;
    }
    const write = this.#write(kind, object, notice)
      .catch((error: unknown) => this.#log.warn({ err: error, reason: notice.reason }, 'an event was not written'))
      .finally(() => this.#pending.delete(write));
    this.#pending.add(write);
  }

  /** Resolves when what has been recorded so far is written or has failed, or when the time is over. */
  async flush(timeoutMs: number): Promise<void> {
    const over = new AbortController();
    const timeout = delay(timeoutMs, undefined, { signal: over.signal }).catch(() => {});
    await Promise.race([Promise.all(this.#pending), timeout]);
    over.abort();
  }

  async #write(kind: Kind, object: KubeObject, notice: EventNotice): Promise<void> {
    const { uid, resourceVersion } = object.metadata;
    await this.#client.create(Event, {
      // An Event about an object without a namespace is in this one.
      metadata: { name: eventName(object.metadata.name), namespace: object.metadata.namespace ?? 'default' },
      eventTime: microTime(new Date()),
      type: notice.type,
      reason: notice.reason,
      action: notice.action,
      note: beginning(notice.note, 1024),
      reportingController: this.#controller,
      reportingInstance: this.#instance,
      regarding: { apiVersion: apiVersionOf(kind), kind: kind.kind, ...keyOf(object), uid, resourceVersion },
    });
  }
}

/** 253 characters at the most, of parts that end in a letter or a digit. */
function eventName(objectName: string): string {
  return `${objectName.slice(0, 236).replace(/[^a-z0-9]+$/, '')}.${randomBytes(8).toString('hex')}`;
}

/** The longest beginning of the text that has so many bytes at the most and ends with a whole character. */
function beginning(text: string, maxBytes: number): string {
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(maxBytes)).read);
}

/** The API's MicroTime wants six digits. */
const microTime = (time: Date): string => time.toISOString().replace('Z', '000Z');
