import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CustomKind } from '@echoperator/runtime';
import type { CustomObject, DefinedController } from '@echoperator/runtime/controller';
import { Deployment } from '@echoperator/runtime/kinds';
import { simulate } from '@echoperator/testing/simulation';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { codeBlocks } from '../../testkit/markdown.ts';
import { makePageFolder } from '../../testkit/page-folder.ts';
import { typeErrors } from './environment/type-check.ts';

interface Page {
  readonly Guestbook: CustomKind<CustomObject<{ readonly image: string; readonly replicas: number }, object>>;
  readonly guestbooks: DefinedController;
}

let folder: string;
let code: string;

beforeAll(async () => {
  const page = await readFile(join(import.meta.dirname, '../../docs/from-controller-runtime.md'), 'utf8');
  code = codeBlocks(page).find(({ language }) => language === 'ts')?.text ?? '';
  folder = await makePageFolder();
  await writeFile(join(folder, 'guestbook.ts'), code);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('the operator of the page type-checks', async () => {
  expect(await typeErrors({ 'guestbook.ts': code }, { declaration: false })).toBe('');
});

test('the operator of the page runs a Deployment, and reports its replicas', async () => {
  const { Guestbook, guestbooks }: Page = await import(join(folder, 'guestbook.ts'));
  await simulate({ controllers: [guestbooks] }, async (simulation) => {
    const { client } = simulation;
    const key = { namespace: 'default', name: 'a' };
    await client.create(Guestbook, { metadata: key, spec: { image: 'example.com/guestbook:1', replicas: 2 } });
    await simulation.settle();
    const ready = { type: 'Ready', message: '0 of 2 available', reason: 'Starting' };
    expect(simulation.objects(Guestbook)[0]?.status).toMatchObject({ available: 0, conditions: [ready] });
    const { metadata } = await client.get(Deployment, key);
    await client.mergeStatus(Deployment, metadata, { replicas: 2, availableReplicas: 2, readyReplicas: 2 });
    await simulation.settle();
    const running = { type: 'Ready', status: 'True', reason: 'Running' };
    expect(simulation.objects(Guestbook)[0]?.status).toMatchObject({ available: 2, conditions: [running] });
  });
});
