import type { EmptyProject, Tarballs } from './project.ts';

/** The name of the created operator. */
export const operatorName = 'site-operator';

/** Creates an operator in a folder of the project, as `npm create @echoperator/operator` does, from the packed package. */
export async function createOperator(parent: EmptyProject, tarballs: Tarballs): Promise<EmptyProject> {
  const create = `npm exec --yes --package=${tarballs['create-operator']} -- create-operator`;
  await parent.run(`${create} ${operatorName} --kind WebSite --group acme.example.com`);
  return parent.subfolder(operatorName);
}

/** The command that installs the operator's packages: the packed ones in place of those of the registry. */
export const installOperator = ({ runtime, testing, cli }: Tarballs): string =>
  `npm install ${runtime} ${testing} ${cli}`;
