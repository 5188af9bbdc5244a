import { namespace, release } from './settings.ts';

/** What the demo leaves behind, and what a person may want to do with it. */
export type Kept = {
  readonly kubeconfig: string;
  /** The folder with kubectl and helm. */
  readonly bin: string;
};

/** Commands to paste: every one of them works as it stands. */
export function farewell({ kubeconfig, bin }: Kept): string {
  return `
The cluster is still there. Look around:

    export KUBECONFIG=${quote(kubeconfig)} PATH=${quote(bin)}:"$PATH"
    kubectl get nodes
    kubectl get echos
    kubectl describe echo hello-world
    kubectl --namespace ${namespace} logs deployment/${release}

    kubectl patch echo hello-world --type merge --patch '{"spec": {"message": "Hi there"}}'
    kubectl get pods --watch

Remove it all:

    make clean-demo
`;
}

/** As a shell takes it for one word. */
export function quote(word: string): string {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
