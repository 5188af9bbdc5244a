import { codeBlocks } from '../../../testkit/markdown.ts';
import { guideFiles, websiteFile } from './guide.ts';
import { installCommands, prepared } from './prepared.ts';
import type { EmptyProject } from './project.ts';

/** Would be an error, of a comment that expects one in vain, if the declarations were not found or said nothing. */
const misuse = `import { requeueAfter } from '@echoperator/runtime';
// @ts-expect-error milliseconds
requeueAfter('a minute');
`;

/**
 * What TypeScript says of the guide's files and the README's, in a project that has the package; empty if nothing.
 *
 * @param options the compiler options that differ from one module mode to another
 */
export async function typeCheckGuide(project: EmptyProject, options: object): Promise<string> {
  await project.run((await installCommands(prepared().tarballs)).types);
  for (const [name, text] of Object.entries(guideFiles)) await project.write(name, text);
  await project.write('website.ts', websiteFile);
  await project.write('wrong.ts', misuse);
  const readme = await project.read('node_modules/@echoperator/runtime/README.md');
  for (const { language, text } of codeBlocks(readme)) if (language === 'ts') await project.write('readme.ts', text);
  return project.typeCheck(options);
}
