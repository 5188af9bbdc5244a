/** What a client holds for a time. */
export interface Holding {
  /** The client's address. */
  readonly client: string;
  /** Ends it, also if the client does not cooperate. */
  revoke(): void;
}

/** A part of the limited amount, until it is disposed of. */
export interface Share extends Disposable {
  grow(amount: number): void;
}

/** What one client holds. */
interface Account {
  amount: number;
  /** In the order in which they were taken. */
  readonly holdings: Map<Holding, number>;
}

/**
 * Shares a limited amount among clients. Over the limit, the client that holds the most loses what it has held for the longest. So a newcomer
 * always gets a share, and clients that are idle or slow cannot keep the others out. Of clients that hold equally much, the one that came first
 * loses. So a client with more addresses than there are shares can end the calls of others, which then come back as newcomers.
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
    // Revoked: what still arrives is not kept.
    if (held === undefined) return;
    account.holdings.set(holding, held + amount);
    account.amount += amount;
    this.#total += amount;
    while (this.#total > this.#limit) this.#revokeOne();
  }

  #revokeOne(): void {
    const [greediest] = [...this.#accounts.values()].sort((one, other) => other.amount - one.amount);
    const [oldest] = greediest?.holdings.keys() ?? [];
    if (greediest === undefined || oldest === undefined) return;
    this.#release(greediest, oldest);
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
