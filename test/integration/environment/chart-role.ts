import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { parse, stringify } from 'yaml';
import { ensureBinaries } from '../../../tools/index.ts';

const chart = join(import.meta.dirname, '../../../charts/echoperator');
const serviceAccount = 'echoperator';

/**
 * Makes the service account and the roles that the chart would make with these values, and nothing else of it.
 *
 * @param options.folder where the kubeconfig goes; whoever made it removes it.
 * @returns a kubeconfig with the account's token: as an operator in that release.
 */
export async function chartRole(
  kubeconfig: string,
  options: { readonly namespace: string; readonly folder: string; readonly values: object },
): Promise<string> {
  const { namespace, folder, values } = options;
  const binaries = await ensureBinaries(['helm', 'kubectl']);
  const [helm = '', kubectl = ''] = [binaries.get('helm'), binaries.get('kubectl')];
  const env = { KUBECONFIG: kubeconfig };
  const valuesFile = join(folder, 'chart-values.yaml');
  await writeFile(valuesFile, stringify({ ...values, fullnameOverride: serviceAccount }));
  const shown = ['serviceaccount.yaml', 'rbac/operator.yaml'].flatMap((file) => ['--show-only', `templates/${file}`]);
  const where = ['--namespace', namespace];
  const made = await execa(helm, ['template', 'release', chart, ...where, '--values', valuesFile, ...shown]);
  await execa(kubectl, ['apply', '--filename=-'], { env, input: made.stdout });
  const { stdout: token } = await execa(kubectl, ['create', 'token', serviceAccount, ...where], { env });
  const config = parse(await readFile(kubeconfig, 'utf8'));
  config.users = config.users.map(({ name }: { readonly name: string }) => ({ name, user: { token } }));
  const path = join(folder, 'chart-role.kubeconfig');
  await writeFile(path, stringify(config), { mode: 0o600 });
  return path;
}
