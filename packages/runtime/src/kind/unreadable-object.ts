import { type KubeObject, keyOf, keyString } from './object.ts';

/** The key of the list of unreadable members. The member is not enumerable, and no JSON text can set a symbol. */
const unreadableMembers = Symbol('unreadableMembers');

/**
 * Thrown when a member is read that the runtime does not keep, because it is nested too deep to be handled safely. The
 * message names the object and the member, not the member's value. A retry reads the same object, so the key is
 * reconciled again only when something changes.
 */
export class UnreadableObjectError extends Error {
  override readonly name = 'UnreadableObjectError';
  // This field is private because a logger would print it, and reading its members throws.
  readonly #object: KubeObject;

  constructor(object: KubeObject, member: string, problem: string) {
    const { kind = 'object' } = object;
    super(`${kind} ${keyString(keyOf(object))}: .${member} is ${problem}: simplify it, or delete the object`);
    this.#object = object;
  }

  /** The object, whose metadata can be read. */
  get object(): KubeObject {
    return this.#object;
  }
}

/**
 * Makes members of an object unreadable: reading such a member throws an {@link UnreadableObjectError}. So does copying
 * or printing the whole object. The object itself stays present, so that no controller considers it deleted.
 *
 * @param problem continues "is": `nested more than 500 levels deep`.
 */
export function makeUnreadable(object: KubeObject, members: readonly string[], problem: string): void {
  for (const member of members) {
    Object.defineProperty(object, member, {
      enumerable: true,
      // Use `this`, so that the error of a copy names the copy.
      get(this: KubeObject): never {
        throw new UnreadableObjectError(this, member, problem);
      },
    });
  }
  Object.defineProperty(object, unreadableMembers, { value: members });
}

/** The members of an object that {@link makeUnreadable} made unreadable; undefined if all can be read. */
export const unreadableMembersOf = (object: KubeObject): readonly string[] | undefined =>
  (object as KubeObject & { readonly [unreadableMembers]?: readonly string[] })[unreadableMembers];

/** Whether every member of the object can be read. */
export const isReadable = (object: KubeObject): boolean => unreadableMembersOf(object) === undefined;
