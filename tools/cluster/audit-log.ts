import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';

/** Logs who sent each write and the response code. Reads are not logged. */
export const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
`;

/** A line of an API server's audit log under {@link auditPolicy}: a write and its response. */
export interface AuditEvent {
  readonly verb: string;
  readonly user: {
    readonly username: string;
    /** For a pod's token, `authentication.kubernetes.io/pod-name` holds the name of the pod. */
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
  /** Absent if the client sent none. */
  readonly userAgent?: string;
  readonly requestURI: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly objectRef?: {
    readonly resource?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly subresource?: string;
  };
  readonly responseStatus?: { readonly code?: number };
}

/** Reads an API server's audit log under {@link auditPolicy}. Reads each line once and keeps the events in memory. */
export class AuditLog {
  readonly #file: string;
  readonly #byNamespace = new Map<string, AuditEvent[]>();
  #offset: number;
  #reading: Promise<void> = Promise.resolve();

  private constructor(file: string, offset: number) {
    this.#file = file;
    this.#offset = offset;
  }

  /** Reads the log from its beginning. */
  static fromStart(file: string): AuditLog {
    return new AuditLog(file, 0);
  }

  /** Reads only what the API server writes from now on. */
  static async fromEnd(file: string): Promise<AuditLog> {
    // The API server creates the file with its first line, and writes each line with one system call.
    const size = await stat(file).then(
      ({ size }) => size,
      () => 0,
    );
    return new AuditLog(file, size);
  }

  /** Returns the events of a namespace until now, in the order of the log. */
  async events(namespace: string): Promise<readonly AuditEvent[]> {
    // Concurrent calls read one after the other, so that no line is read twice.
    this.#reading = this.#reading.catch(() => {}).then(() => this.#readNewLines());
    await this.#reading;
    return [...(this.#byNamespace.get(namespace) ?? [])];
  }

  async #readNewLines(): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of createReadStream(this.#file, { start: this.#offset })) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    // The last line may be incomplete.
    const end = bytes.lastIndexOf('\n') + 1;
    this.#offset += end;
    for (const line of bytes.toString('utf8', 0, end).split('\n').slice(0, -1))
      this.#add(JSON.parse(line) as AuditEvent);
  }

  #add(event: AuditEvent): void {
    const namespace = event.objectRef?.namespace ?? '';
    const events = this.#byNamespace.get(namespace);
    if (events === undefined) this.#byNamespace.set(namespace, [event]);
    else events.push(event);
  }
}
