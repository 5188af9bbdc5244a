import type { KubeObject } from '../kind/index.ts';
import { parseFieldSelector, parseLabelSelector, type Selector } from './label-selector.ts';

/** Limits which objects of a kind a cache holds. */
export interface ScopeOptions {
  /** Only these namespaces, with one watch per namespace. Default: all namespaces, with one watch. */
  readonly namespaces?: readonly string[];
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** Whether an object belongs in a cache. */
export class Scope {
  readonly #namespaces: ReadonlySet<string> | undefined;
  readonly #labels: Selector;
  readonly #fields: Selector;

  constructor({ namespaces, labelSelector, fieldSelector }: ScopeOptions) {
    this.#namespaces = namespaces && new Set(namespaces);
    this.#labels = (labelSelector === undefined ? undefined : parseLabelSelector(labelSelector)) ?? everything;
    this.#fields = (fieldSelector === undefined ? undefined : parseFieldSelector(fieldSelector)) ?? everything;
  }

  /** A selector that this runtime cannot parse is assumed to match. */
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
