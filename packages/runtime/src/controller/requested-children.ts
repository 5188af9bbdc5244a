import { type Kind, versionedResource } from '../kind/kind.ts';
import { type KubeObject, keyOf, keyString, type ObjectKey, parseKey } from '../kind/object.ts';

/** The children that one owner asked for. */
interface Asked {
  readonly uid: string;
  /** By child. The value says whether a child of this name was deleted. */
  readonly children: Map<string, boolean>;
}

/**
 * Which children each object asked for in its last reconcile that asked for any, whether or not they exist and whoever
 * owns them. A change of an object with such a name enqueues the asking object, because a taken name may become free.
 */
export class RequestedChildren {
  /** By `keyString` of the owner. */
  readonly #byOwner = new Map<string, Asked>();
  /** By child: the keys of the owners that ask for it. */
  readonly #owners = new Map<string, readonly string[]>();

  /** Begins a reconcile. Call `end` after it. A reconcile that asks for no child costs nothing here. */
  begin({ metadata }: KubeObject): AskedNow {
    const key = keyString(metadata);
    const known = (): Asked | undefined => {
      const asked = this.#byOwner.get(key);
      return asked?.uid === metadata.uid ? asked : undefined;
    };
    // A Map keeps insertion order, so children that are asked for from now on follow these.
    const countBefore = known()?.children.size ?? 0;
    let now: Set<string> | undefined;
    return {
      ask: (kind, child) => {
        const id = idOf(kind, child);
        now ??= new Set();
        now.add(id);
        this.#add(key, metadata.uid, id);
      },
      wasDeleted: (kind, child) => known()?.children.get(idOf(kind, child)) === true,
      end: () => {
        const asked = known();
        // Keep the children of the last reconcile: this one may have ended before it asked for any.
        if (asked === undefined || now === undefined) return;
        for (const id of [...asked.children.keys()].slice(0, countBefore)) if (!now.has(id)) this.#drop(key, asked, id);
      },
    };
  }

  /** The keys of the objects that ask for this child. */
  ownersOf(kind: Kind, child: ObjectKey): readonly ObjectKey[] {
    return (this.#owners.get(idOf(kind, child)) ?? []).map(parseKey);
  }

  /** A child of the owner was deleted. */
  deleted({ metadata }: KubeObject, kind: Kind, child: KubeObject): void {
    const id = idOf(kind, keyOf(child));
    this.#add(keyString(metadata), metadata.uid, id).set(id, true);
  }

  /** The owner is gone. */
  forget(owner: ObjectKey): void {
    const key = keyString(owner);
    const asked = this.#byOwner.get(key);
    if (asked === undefined) return;
    for (const id of asked.children.keys()) this.#drop(key, asked, id);
    this.#byOwner.delete(key);
  }

  #askedOf(key: string, uid: string): Asked {
    const known = this.#byOwner.get(key);
    if (known?.uid === uid) return known;
    if (known !== undefined) for (const id of known.children.keys()) this.#drop(key, known, id);
    const asked = { uid, children: new Map<string, boolean>() };
    this.#byOwner.set(key, asked);
    return asked;
  }

  #add(owner: string, uid: string, id: string): Asked['children'] {
    const { children } = this.#askedOf(owner, uid);
    if (children.has(id)) return children;
    children.set(id, false);
    this.#owners.set(id, [...(this.#owners.get(id) ?? []), owner]);
    return children;
  }

  #drop(owner: string, { children }: Asked, id: string): void {
    children.delete(id);
    const others = (this.#owners.get(id) ?? []).filter((each) => each !== owner);
    if (others.length === 0) this.#owners.delete(id);
    else this.#owners.set(id, others);
  }
}

/** The children that one reconcile asks for. */
export interface AskedNow {
  ask(kind: Kind, child: ObjectKey): void;
  /** Whether this process has seen the deletion of a child of this object and name. */
  wasDeleted(kind: Kind, child: ObjectKey): boolean;
  /** Forgets the children that this reconcile did not ask for. */
  end(): void;
}

const idOf = (kind: Kind, child: ObjectKey): string => `${versionedResource(kind)} ${keyString(child)}`;
