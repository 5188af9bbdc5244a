import type { KubeObject } from '../kind/object.ts';
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
  covers({ metadata }: KubeObject): boolean {
    const { name, namespace = '', labels } = metadata;
    if (this.#namespaces !== undefined && !this.#namespaces.has(namespace)) return false;
    return (
      this.#labels((key) => labels?.[key]) && this.#fields((field) => (field === 'metadata.name' ? name : namespace))
    );
  }
}

const everything: Selector = () => true;
