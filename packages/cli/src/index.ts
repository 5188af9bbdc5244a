/**
 * `@echoperator/cli`: the parts of `echoperator-cli generate` as functions, for a chart or pages of another form than
 * the command writes. `docs/generate.md` of the repository describes the command.
 */
export { replacePart } from './generate/generated-part.ts';
export { type DescribedKind, type KindPart, kindPage, kindParts } from './generate/kind-page.ts';
export {
  banner,
  type Definition,
  definitionFileName,
  definitionYaml,
  type Rule,
  rulesYaml,
} from './generate/manifests.ts';
export { markdownTable } from './generate/markdown-table.ts';
export { type ReasonRow, reasonRows } from './generate/reasons-table.ts';
export { type Files, writeFiles } from './generate/write-files.ts';
export type { Output } from './subcommand.ts';
