/**
 * `@echoperator/cli`: the command `echoperator-cli`, and its parts as functions, for a chart or pages of another form.
 */
export { runCommand } from './run-command.ts';
export type { Output } from './subcommand.ts';
