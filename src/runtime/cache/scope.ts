import type { KubeObject } from '../kind/index.ts';
import { parseFieldSelector, parseLabelSelector, type Selector } from './label-selector.ts';

/** Which objects of a kind a cache holds. */
export interface ScopeOptions {
  /** Only these namespaces, each with a watch of its own. Default: all, with one watch. */
  readonly namespaces?: readonly string[];
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** Tells whether an object belongs into a cache. */
export class Scope {
  readonly #namespaces: ReadonlySet<string> | undefined;
  readonly #labels: Selector;
  readonly #fields: Selector;

  constructor({ namespaces, labelSelector, fieldSelector }: ScopeOptions) {
    this.#namespaces = namespaces && new Set(namespaces);
    this.#labels = (labelSelector === undefined ? undefined : parseLabelSelector(labelSelector)) ?? everything;
    this.#fields = (fieldSelector === undefined ? undefined : parseFieldSelector(fieldSelector)) ?? everything;
  }

  /** A selector that cannot be read here is taken to fit. */
  covers(object: KubeObject): boolean {
    const { namespace = '', labels } = object.metadata;
    if (this.#namespaces !== undefined && !this.#namespaces.has(namespace)) return false;
    return this.#labels((key) => labels?.[key]) && this.#fields((path) => fieldOf(object, path));
  }
}

const everything: Selector = () => true;

function fieldOf(object: KubeObject, path: string): string | undefined {
  let value: unknown = object;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.entries(value).find(([member]) => member === name)?.[1];
  }
  return value === undefined || value === null ? undefined : String(value);
}
