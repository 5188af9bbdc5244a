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
  /** Whether the offset is within a line. The rest of that line is skipped. */
  #isWithinLine: boolean;
  #reading: Promise<void> = Promise.resolve();

  private constructor(file: string, offset: number, isWithinLine: boolean) {
    this.#file = file;
    this.#offset = offset;
    this.#isWithinLine = isWithinLine;
  }

  /** Reads the log from its beginning. */
  static fromStart(file: string): AuditLog {
    return new AuditLog(file, 0, false);
  }

  /** Reads only what the API server writes from now on. */
  static async fromEnd(file: string): Promise<AuditLog> {
    // The API server creates the file with its first line.
    const size = await stat(file).then(
      ({ size }) => size,
      () => 0,
    );
    // The file may end within a line that is being written. If it does not, only the line's end is skipped.
    return new AuditLog(file, Math.max(size - 1, 0), size > 0);
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
    if (end === 0) return;
    this.#offset += end;
    const lines = bytes
      .toString('utf8', 0, end)
      .split('\n')
      .slice(this.#isWithinLine ? 1 : 0, -1);
    this.#isWithinLine = false;
    for (const line of lines) this.#add(JSON.parse(line) as AuditEvent);
  }

  #add(event: AuditEvent): void {
    const namespace = event.objectRef?.namespace ?? '';
    const events = this.#byNamespace.get(namespace);
    if (events === undefined) this.#byNamespace.set(namespace, [event]);
    else events.push(event);
  }
}
