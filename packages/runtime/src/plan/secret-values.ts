import type { KubeObject } from '../kind/object.ts';

/** A shorter value, such as a port or a name, is hidden only where it is the whole text: other texts contain it too. */
const minPartLength = 8;
/** With more values, every text is hidden: to look for each of them in each text could take hours. */
const maxValues = 200;
const hiddenText = '(a value of a Secret)';

interface SecretContents extends KubeObject {
  readonly data?: unknown;
  readonly stringData?: unknown;
}

/** The values of some Secrets, to keep them out of the fields of other kinds. */
export class SecretValues {
  /** Whose values are not in `#values` yet. */
  readonly #secrets = new Set<KubeObject>();
  readonly #values = new Set<string>();

  /** Adds the values of a Secret. Cheap until the values are needed. */
  add(secret: KubeObject): void {
    this.#secrets.add(secret);
  }

  /** Whether a text anywhere in a JSON value contains one of the values. */
  isIn(value: unknown): boolean {
    const values = this.#all();
    if (values.size === 0) return false;
    if (values.size > maxValues) return true;
    const parts = [...values].filter(isPart);
    return textsOf(value).some((text) => values.has(text.trim()) || parts.some((secret) => text.includes(secret)));
  }

  /** The text without the values. */
  hideIn(text: string): string {
    if (this.#all().size > maxValues) return hiddenText;
    const longestFirst = [...this.#all()].filter(isPart).sort((one, other) => other.length - one.length);
    return longestFirst.reduce((hidden, secret) => hidden.replaceAll(secret, hiddenText), text);
  }

  #all(): ReadonlySet<string> {
    for (const secret of this.#secrets) {
      const { data, stringData } = secret as SecretContents;
      for (const encoded of textsOf(data))
        this.#values.add(encoded).add(Buffer.from(encoded, 'base64').toString().trim());
      for (const text of textsOf(stringData)) this.#values.add(text.trim());
    }
    this.#secrets.clear();
    this.#values.delete('');
    return this.#values;
  }
}

const isPart = (secret: string): boolean => secret.length >= minPartLength;

/** All strings of a JSON value. Without recursion: the API server accepts objects that exhaust the stack. */
function textsOf(value: unknown): readonly string[] {
  const texts: string[] = [];
  const remaining = [value];
  while (remaining.length > 0) {
    const each = remaining.pop();
    if (typeof each === 'string') texts.push(each);
    if (typeof each === 'object' && each !== null) for (const member of Object.values(each)) remaining.push(member);
  }
  return texts;
}
