import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';

/**
 * The file whose text the kubelet puts into the status of a container that has ended (`terminationMessagePath`). The
 * kubelet makes a new, empty one for each instance of a container and mounts it there (makeMounts in
 * pkg/kubelet/kuberuntime). So a text that was never written elsewhere tells one instance from all others.
 */
export class TerminationLog {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Adds a line.
   *
   * @throws Error where there is no such file: one made here would be in the container's own file system, where the kubelet
   *   does not look.
   */
  async add(line: string): Promise<void> {
    const file = await open(this.#path, constants.O_WRONLY | constants.O_APPEND);
    try {
      await file.write(`${line}\n`);
    } finally {
      await file.close();
    }
  }

  /** @throws Error where it cannot be read. */
  async holds(text: string): Promise<boolean> {
    return (await readFile(this.#path, 'utf8')).includes(text);
  }
}
