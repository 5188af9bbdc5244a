import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { LuaFactory } from 'wasmoon';
import { parse } from 'yaml';
import { codeBlocks } from '../../testkit/markdown.ts';

const page = readFileSync(join(import.meta.dirname, '../../docs/install.md'), 'utf8');
const { text = '' } = codeBlocks(page).find((block) => block.text.includes('resource.customizations.health')) ?? {};
const [script = ''] = Object.values<string>(parse(text).data);

/** A JSON value as a literal of Lua. */
function luaOf(value: unknown): string {
  if (Array.isArray(value)) return `{${value.map(luaOf).join(', ')}}`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, member]) => `[${JSON.stringify(key)}] = ${luaOf(member)}`)
    .join(', ')}}`;
}

/** Runs the documented health check as Argo CD does, with the object in `obj`. */
async function healthOf(status: object | undefined): Promise<unknown> {
  const lua = await new LuaFactory().createEngine();
  try {
    return await lua.doString(
      `local obj = ${luaOf({ metadata: { generation: 2 }, ...(status && { status }) })}\n${script}`,
    );
  } finally {
    lua.global.close();
  }
}

const withReady = (status: string, reason: string, observedGeneration = 2) => ({
  observedGeneration,
  conditions: [
    { type: 'VolumeResizing', status: 'False', reason: 'AllReady', message: 'no volume grows' },
    { type: 'Ready', status, reason, message: `because of ${reason}` },
  ],
});

test.each([
  ['has no status', 'Progressing', 'not reconciled yet', undefined],
  ['was changed since its status', 'Progressing', 'not reconciled yet', withReady('True', 'Printed', 1)],
  ['is at work', 'Progressing', 'because of Printing', withReady('False', 'Printing')],
  ['is ready', 'Healthy', 'because of Printed', withReady('True', 'Printed')],
  ['is invalid', 'Degraded', 'because of InvalidSpec', withReady('False', 'InvalidSpec')],
  ['is refused', 'Degraded', 'because of Refused', withReady('False', 'Refused')],
  ['has failed', 'Degraded', 'because of JobFailed', withReady('False', 'JobFailed')],
])('in Argo CD an object that %s is %s', async (_, health, message, status) => {
  expect(await healthOf(status)).toEqual({ status: health, message });
});
