import { namespace, release } from './settings.ts';

/**
 * Returns commands for the demo's cluster that the user can paste.
 *
 * @param demo.bin the folder that contains kubectl and helm
 */
export function nextSteps({ kubeconfig, bin }: { readonly kubeconfig: string; readonly bin: string }): string {
  return `
The cluster is still running. To look around:

    export KUBECONFIG=${quote(kubeconfig)} PATH=${quote(bin)}:"$PATH"
    kubectl get nodes
    kubectl get echos
    kubectl describe echo hello-world
    kubectl --namespace ${namespace} logs deployment/${release}

    kubectl patch echo hello-world --type merge --patch '{"spec": {"message": "Hi there"}}'
    kubectl get pods --watch

To remove the cluster:

    make clean-demo
`;
}

/** Quotes a text so that a shell takes it as one word. */
export function quote(word: string): string {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
