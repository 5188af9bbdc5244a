import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';

/**
 * The file at a container's `terminationMessagePath`. The kubelet copies its text into the status of the terminated
 * container. It mounts a new, empty file for each instance of a container (makeMounts in pkg/kubelet/kuberuntime), so a
 * unique text in it identifies one instance.
 */
export class TerminationMessageFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Appends a line.
   *
   * @throws Error if the file does not exist. It is not created, because the kubelet would not read one in the
   *   container's own file system.
   */
  async appendLine(line: string): Promise<void> {
    const file = await open(this.#path, constants.O_WRONLY | constants.O_APPEND);
    try {
      await file.write(`${line}\n`);
    } finally {
      await file.close();
    }
  }

  /** @throws Error if the file cannot be read. */
  async includes(text: string): Promise<boolean> {
    return (await readFile(this.#path, 'utf8')).includes(text);
  }
}
