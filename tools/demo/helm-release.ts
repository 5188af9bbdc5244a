import { type Commands, run } from './commands.ts';

/**
 * Whether the release is there, to be upgraded. One whose last operation was interrupted, which Helm refuses to touch,
 * is removed: then it is to be installed again. The CustomResourceDefinitions and the Echos stay.
 */
export async function isDeployed(commands: Commands, release: string, namespace: string): Promise<boolean> {
  const where = ['--namespace', namespace];
  const list = await run(commands, 'helm', 'list', '--all', ...where, '--filter', `^${release}$`, '--output', 'json');
  const [found] = JSON.parse(list) as readonly { readonly status: string }[];
  if (found === undefined) return false;
  if (found.status === 'deployed') return true;
  await run(commands, 'helm', 'uninstall', release, ...where, '--wait', '--timeout', '60s');
  return false;
}
