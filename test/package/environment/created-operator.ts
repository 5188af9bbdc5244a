import type { EmptyProject, Tarballs } from './project.ts';

/** The name of the created operator. */
export const operatorName = 'site-operator';

/**
 * Creates an operator in a folder of the project, as `npm create @echoperator/operator` does, from the packed package.
 *
 * @param words its name and its kind
 */
export async function createOperator(
  parent: EmptyProject,
  tarballs: Tarballs,
  words = `${operatorName} --kind WebSite --group acme.example.com`,
): Promise<EmptyProject> {
  const [name = ''] = words.split(' ');
  await parent.run(`npm exec --yes --package=${tarballs['create-operator']} -- create-operator ${words}`);
  return parent.subfolder(name);
}

/** The command that installs the operator's packages: the packed ones in place of those of the registry. */
export const installOperator = ({ runtime, testing, cli }: Tarballs): string =>
  `npm install ${runtime} ${testing} ${cli}`;

/** The command of docs/version-and-webhook.md that installs the packages that create certificates. */
export const installWebhooks = 'npm install @peculiar/x509 reflect-metadata';
