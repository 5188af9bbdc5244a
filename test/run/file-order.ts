import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import type { TestSequencerOptions } from '@jest/test-sequencer';

// The package's types describe its CommonJS export. An ES import would return another `default`.
const { default: TestSequencer } = createRequire(import.meta.url)(
  '@jest/test-sequencer',
) as typeof import('@jest/test-sequencer');

type TestFile = { readonly path: string; readonly context: { readonly config: { readonly rootDir: string } } };

/**
 * Runs the files of a suite in an order that depends only on jest's `--seed`. So no file can rely on another one, and a
 * failure that depends on the order can be repeated.
 */
export default class FileOrder extends TestSequencer {
  readonly #seed: number;

  constructor(options: TestSequencerOptions) {
    super(options);
    this.#seed = options.globalConfig.seed;
  }

  override sort<T extends TestFile>(files: readonly T[]): T[] {
    // Ranks files by their path relative to the root, so that the order is the same in every checkout.
    const rankOf = ({ path, context }: T): string =>
      createHash('sha256')
        .update(`${this.#seed} ${path.slice(context.config.rootDir.length)}`)
        .digest('hex');
    return files
      .map((file) => ({ file, rank: rankOf(file) }))
      .sort((one, other) => (one.rank < other.rank ? -1 : 1))
      .map(({ file }) => file);
  }
}
