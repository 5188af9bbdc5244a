/** A table as somebody names it: without a schema it is looked for along the role's search_path. */
export interface TableName {
  readonly schema: string | undefined;
  readonly name: string;
}

/** A table as the database has it. */
export interface Table {
  readonly schema: string;
  readonly name: string;
}

/** What was written is no table's name. */
export class InvalidTableNameError extends Error {
  override readonly name = 'InvalidTableNameError';
}

/** What PostgreSQL keeps of a name. What is longer it would cut, and so find another table. */
const maxNameBytes = 63;

/** One part, and the dot after it or the end. What begins without a quote is taken as it is, up to the next dot. */
const part = /^(?:"((?:[^"]|"")+)"|([^".][^.]*))(\.|$)/s;

/**
 * Reads a table's name. Nothing in it is SQL, and letters keep their case: `students; drop table students` is a name as good
 * as any.
 *
 * @throws InvalidTableNameError
 */
export function parseTableName(text: string): TableName {
  const parts: string[] = [];
  let rest = text;
  for (let more = true; more; ) {
    const [match = '', inQuotes, plain, end] = part.exec(rest) ?? [];
    if (match === '') throw invalid(text, 'it is made of one part, or of two with a dot between them');
    parts.push(inQuotes?.replaceAll('""', '"') ?? plain ?? '');
    rest = rest.slice(match.length);
    more = end === '.';
  }
  const [name, schema, ...others] = parts.reverse();
  if (name === undefined || others.length > 0) {
    throw invalid(text, 'it has more than two parts; one with a dot in it stands in double quotes');
  }
  if (parts.some((each) => Buffer.byteLength(each) > maxNameBytes)) {
    throw invalid(text, `PostgreSQL has no name of more than ${maxNameBytes} bytes`);
  }
  return { schema, name };
}

/** Writes a table's name so that {@link parseTableName} reads it. */
export const tableText = ({ schema, name }: TableName): string =>
  schema === undefined ? partText(name) : `${partText(schema)}.${partText(name)}`;

/** Writes a table's name as SQL. */
export const tableSql = ({ schema, name }: Table): string => `${quoted(schema)}.${quoted(name)}`;

const partText = (text: string): string => (text.includes('.') || text.startsWith('"') ? quoted(text) : text);

/** As SQL has it: all that is between double quotes is a name, where each double quote in it is doubled. */
const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

const invalid = (text: string, why: string): InvalidTableNameError =>
  new InvalidTableNameError(`${JSON.stringify(text)} is no name of a table: ${why}`);
