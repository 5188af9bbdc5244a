import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { createOperator, installOperator } from './environment/created-operator.ts';
import { offlineEnvironment, prepared } from './environment/prepared.ts';
import { EmptyProject } from './environment/project.ts';

const { folder, tarballs } = prepared();

describe('an operator that npm create makes in an empty folder, on Node 24', () => {
  let operator: EmptyProject;
  beforeAll(async () => {
    operator = await createOperator(await EmptyProject.make(join(folder, 'create'), offlineEnvironment()), tarballs);
    await operator.run(installOperator(tarballs));
  });

  test('passes its lint and its types', async () => {
    await operator.run('npm run lint');
  });

  test('passes its unit test', async () => {
    expect(await operator.run('npm test')).toMatch(/^. pass 2$/m);
  });

  test('has a chart whose CRDs and rules are generated, and checked', async () => {
    await expect(operator.run('npm run generate -- --check')).rejects.toThrow('chart/files/rules.yaml');
    await operator.run('npm run generate');
    await operator.run('npm run generate -- --check');
    expect(await operator.read('chart/files/rules.yaml')).toContain('configmaps');
    expect(await operator.read('chart/crds/websites.acme.example.com.yaml')).toContain('kind: WebSite');
  });

  test('refuses a remote cluster that is only the current context, by its name', async () => {
    const kubeconfig = {
      clusters: [{ name: 'far', cluster: { server: 'https://prod.example.com' } }],
      users: [{ name: 'me', user: {} }],
      contexts: [{ name: 'production', context: { cluster: 'far', user: 'me' } }],
      'current-context': 'production',
    };
    await operator.write('kubeconfig', JSON.stringify(kubeconfig));
    const { exitCode, all } = await operator.start('node', ['src/main.ts'], { KUBECONFIG: 'kubeconfig' });
    expect(all).toMatch(/^site-operator: the current context "production" .* https:\/\/prod\.example\.com, .*$/);
    expect(exitCode).toBe(2);
  });
});
