import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { installPackage, offlineEnvironment, prepared } from './environment/prepared.ts';
import { EmptyProject } from './environment/project.ts';
import { typeCheckGuide } from './environment/type-check.ts';

describe('in an empty project on Node 24', () => {
  test('what the guide and its README show type-checks under bundler, declarations and all', async () => {
    const project = await EmptyProject.make(join(prepared().folder, 'project'), offlineEnvironment());
    await installPackage(project);
    expect(await typeCheckGuide(project, { module: 'preserve', moduleResolution: 'bundler' })).toBe('');
  });
});
