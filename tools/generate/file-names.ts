/** The name of a kind's files and folders, from the name of its controller: `scheduled-echo`. */
export const fileNameOf = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** The page of a kind: `docs/scheduled-echo.md`. */
export const pageOf = (name: string): string => `docs/${fileNameOf(name)}.md`;

/** The example on its page, as a file: `examples/scheduled-echo.yaml`. */
export const exampleOf = (name: string): string => `examples/${fileNameOf(name)}.yaml`;
