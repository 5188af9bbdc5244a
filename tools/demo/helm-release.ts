import { type Commands, run } from './commands.ts';

/**
 * Returns the Helm command that installs the release now. Uninstalls a release whose last operation was interrupted,
 * because Helm refuses to upgrade it; the CustomResourceDefinitions and the Echos stay.
 */
export async function prepareInstallation(
  commands: Commands,
  release: string,
  namespace: string,
): Promise<'install' | 'upgrade'> {
  const where = ['--namespace', namespace];
  const list = await run(commands, 'helm', 'list', '--all', ...where, '--filter', `^${release}$`, '--output', 'json');
  const [found] = JSON.parse(list) as readonly { readonly status: string }[];
  if (found === undefined) return 'install';
  if (found.status === 'deployed') return 'upgrade';
  await run(commands, 'helm', 'uninstall', release, ...where, '--wait', '--timeout', '60s');
  return 'install';
}
