import { expect, test } from '@jest/globals';
import { runCommand } from '../../../../packages/petstore/src/server/command-line.ts';
import { UsageError } from '../../../../packages/petstore/src/server/remote-pets.ts';

test.each(['::1:6742', '[::1', 'localhost:99999', 'a b:1'])('PETSTORE_ADDRESS=%s is refused', async (address) => {
  const takes = 'takes a host and a port, as petstore.example:6742 or [::1]:6742';
  await expect(runCommand('list', [], { PETSTORE_ADDRESS: address }, () => {})).rejects.toThrow(
    new UsageError(`PETSTORE_ADDRESS: got ${JSON.stringify(address)}, ${takes}`),
  );
});
