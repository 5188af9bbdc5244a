import { Counter, type Registry } from 'prom-client';
import type { Database } from './database.ts';
import type { Statement } from './statements.ts';

/** Counts the statements that are asked of a database, by how they end. */
export function statementMetrics(registry: Registry, database: Pick<Database, 'query'>): Pick<Database, 'query'> {
  const statements = new Counter({
    name: 'echoperator_postgres_statements_total',
    help: 'Statements asked of the database, by how they ended. Those that a circuit refused at once are errors too.',
    labelNames: ['result'],
    registers: [registry],
  });
  for (const result of ['success', 'error']) statements.inc({ result }, 0);
  return {
    query: async <R extends object>(statement: Statement): Promise<readonly R[]> => {
      try {
        const rows = await database.query<R>(statement);
        statements.inc({ result: 'success' });
        return rows;
      } catch (error) {
        statements.inc({ result: 'error' });
        throw error;
      }
    },
  };
}
