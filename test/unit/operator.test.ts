import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { ConfigError, readConfig } from '../../src/config.ts';
import { controllers } from '../../src/operator.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'operator-'));
});
afterEach(() => rm(folder, { recursive: true }));

test.each([
  ['missing', undefined, 'takes a file that can be read: Error: ENOENT'],
  // Node would trust the public authorities.
  ['empty', '\n', 'takes a file that is not empty'],
])('the controller of pets refuses a %s file of the authority', async (_, content, problem) => {
  const file = join(folder, 'ca.crt');
  if (content !== undefined) await writeFile(file, content);
  const config = readConfig({ PETSTORE_TLS: 'true', PETSTORE_CA_FILE: file });
  const refused = controllers.pet.add({ metrics: {} } as never, config);
  await expect(refused).rejects.toThrow(ConfigError);
  await expect(refused).rejects.toThrow(`PETSTORE_CA_FILE: got ${JSON.stringify(file)}, ${problem}`);
});
