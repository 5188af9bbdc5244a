import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';

/** Writes with who sent them and what was answered; reads are of no interest to anybody here. */
export const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
`;

/** One line of an API server's audit log under {@link auditPolicy}: a write that was answered. */
export interface AuditEvent {
  readonly verb: string;
  readonly user: {
    readonly username: string;
    /** Of a pod's token: which pod's, under `authentication.kubernetes.io/pod-name`. */
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
  /** Absent where the client sent none. */
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

/** An API server's audit log under {@link auditPolicy}. Each of its lines is read once, however often it is asked. */
export class AuditLog {
  readonly #file: string;
  readonly #byNamespace = new Map<string, AuditEvent[]>();
  #offset: number;
  #reading: Promise<void> = Promise.resolve();

  private constructor(file: string, offset: number) {
    this.#file = file;
    this.#offset = offset;
  }

  /** From its beginning. */
  static of(file: string): AuditLog {
    return new AuditLog(file, 0);
  }

  /** What is written from now on. */
  static async fromNowOn(file: string): Promise<AuditLog> {
    // The server writes a line by one write, and creates the file by its first.
    const size = await stat(file).then(
      ({ size }) => size,
      () => 0,
    );
    return new AuditLog(file, size);
  }

  /** The events of a namespace until now, in the order of the log. */
  async events(namespace: string): Promise<readonly AuditEvent[]> {
    // Of two who ask at once the second reads on where the first has come to.
    this.#reading = this.#reading.catch(() => {}).then(() => this.#readOn());
    await this.#reading;
    return [...(this.#byNamespace.get(namespace) ?? [])];
  }

  async #readOn(): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of createReadStream(this.#file, { start: this.#offset })) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    // The server may be writing the last one.
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
