/** A node of a {@link LinkedList}, in at most one list at a time. Only the list may change the links. */
export interface Linked<Node> {
  previous: Node | undefined;
  next: Node | undefined;
}

/** A doubly linked list: removing any node is O(1). (Finding the first entry of a Map skips all deleted entries.) */
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
