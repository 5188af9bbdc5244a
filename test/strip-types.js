import { stripTypeScriptTypes } from 'node:module';

/**
 * Jest's transformer: erases types as Node itself does, so that tests run the code that Node runs, such as its `using`, with the lines and columns
 * of the source.
 */
export default { process: (source) => ({ code: stripTypeScriptTypes(source) }) };
