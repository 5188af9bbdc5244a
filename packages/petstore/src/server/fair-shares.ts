/** A resource that a client holds for a while. */
export interface Holding {
  /** The client's address. */
  readonly client: string;
  /** Takes the resource away, even if the client does not cooperate. */
  revoke(): void;
}

/** A part of the limited amount. Disposing of it returns the part. */
export interface Share extends Disposable {
  grow(amount: number): void;
}

/** The holdings of one client. */
interface Account {
  amount: number;
  /** Oldest first. */
  readonly holdings: Map<Holding, number>;
}

/**
 * Shares a limited amount among clients. Over the limit, the client that holds the most loses its oldest holding. So a
 * new client always gets a share, and idle or slow clients cannot block the others. If several clients hold the most,
 * the one that came first loses. So a client with more addresses than there are shares can end the calls of others,
 * which then come back as new clients.
 */
export class FairShares {
  readonly #limit: number;
  readonly #accounts = new Map<string, Account>();
  #total = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Takes a share of the amount. A share larger than the limit is revoked at once. */
  take(holding: Holding, amount: number): Share {
    const account = this.#accounts.get(holding.client) ?? { amount: 0, holdings: new Map<Holding, number>() };
    this.#accounts.set(holding.client, account);
    account.holdings.set(holding, 0);
    this.#grow(account, holding, amount);
    return {
      grow: (more) => this.#grow(account, holding, more),
      [Symbol.dispose]: () => this.#release(account, holding),
    };
  }

  #grow(account: Account, holding: Holding, amount: number): void {
    const held = account.holdings.get(holding);
    // The holding was revoked, so later parts are not counted.
    if (held === undefined) return;
    account.holdings.set(holding, held + amount);
    account.amount += amount;
    this.#total += amount;
    while (this.#total > this.#limit) this.#revokeOne();
  }

  #revokeOne(): void {
    const [largest] = [...this.#accounts.values()].sort((one, other) => other.amount - one.amount);
    const [oldest] = largest?.holdings.keys() ?? [];
    if (largest === undefined || oldest === undefined) return;
    this.#release(largest, oldest);
    oldest.revoke();
  }

  #release(account: Account, holding: Holding): void {
    const held = account.holdings.get(holding);
    if (held === undefined) return;
    account.holdings.delete(holding);
    account.amount -= held;
    this.#total -= held;
    if (account.holdings.size === 0) this.#accounts.delete(holding.client);
  }
}
