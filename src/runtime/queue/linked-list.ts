/** What can stand in a {@link LinkedList}, in one at a time. The links are the list's own. */
export interface Linked<Node> {
  previous: Node | undefined;
  next: Node | undefined;
}

/** A list from which any node can be taken at once. (A Map skips over all that was deleted before its first entry.) */
export class LinkedList<Node extends Linked<Node>> {
  #first: Node | undefined;
  #last: Node | undefined;

  get first(): Node | undefined {
    return this.#first;
  }

  push(node: Node): void {
    node.previous = this.#last;
    node.next = undefined;
    if (this.#last === undefined) this.#first = node;
    else this.#last.next = node;
    this.#last = node;
  }

  /** The node must be in this list. */
  remove(node: Node): void {
    const { previous, next } = node;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    node.previous = undefined;
    node.next = undefined;
  }
}
