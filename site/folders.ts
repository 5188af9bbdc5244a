import { join } from 'node:path';

export const repository = join(import.meta.dirname, '..');

/** Where the site is published. The path is that of a project's GitHub Pages. */
export const address = 'https://echoperator.github.io/echoperator/';
export const base = new URL(address).pathname;

/** Where links to files that are no pages lead. */
export const repositoryAddress = 'https://github.com/echoperator/echoperator';

/** The pages as VitePress reads them: copies from the repository, and those of TypeDoc. */
export const pagesFolder = join(import.meta.dirname, 'dist/pages');
export const htmlFolder = join(import.meta.dirname, 'dist/html');
