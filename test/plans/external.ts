/** What the operator maintains outside of the cluster. */
export interface External {
  /** The rows of a namespace's PostgresWriters in all tables. */
  rows(namespace: string): Promise<unknown>;
  /** The pets of a namespace's Pets, without their ids. */
  pets(namespace: string): Promise<unknown>;
}
