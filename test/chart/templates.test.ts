import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { chart } from './helm.ts';

const templates = globSync('templates/**/*.{yaml,txt}', { cwd: chart });

it.each(templates)('%s adds the values that are missing before it reads one', async (path) => {
  const text = await readFile(join(chart, path), 'utf8');
  expect(text.split('\n', 1)[0]).toMatch(/^\{\{- include "echoperator\.fillDefaults" \. -?\}\}$/);
});
