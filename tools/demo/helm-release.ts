import { type Commands, run } from './commands.ts';

/**
 * Clears the way for `helm upgrade --install`: Helm refuses to touch a release whose last operation was interrupted.
 * The CustomResourceDefinitions and the Echos stay.
 */
export async function removeUnlessDeployed(commands: Commands, release: string, namespace: string): Promise<void> {
  const where = ['--namespace', namespace];
  const list = await run(commands, 'helm', 'list', '--all', ...where, '--filter', `^${release}$`, '--output', 'json');
  const [found] = JSON.parse(list) as readonly { readonly status: string }[];
  if (found === undefined || found.status === 'deployed') return;
  await run(commands, 'helm', 'uninstall', release, ...where, '--wait', '--timeout', '60s');
}
