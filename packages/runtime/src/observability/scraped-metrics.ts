import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** The name, the help text and the labels of a metric. */
export interface MetricDefinition<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
}

/** Reads a value at a scrape. Undefined: there is no value now. */
export type ReadValue = () => number | undefined;

/** The values of a metric, each a function that is called at every scrape. Between scrapes they cost nothing. */
export class Readings<Label extends string> {
  #all: Reading<Label>[] = [];

  /** @returns a function that removes the value. */
  add(labels: Readonly<Partial<Record<Label, string>>>, read: ReadValue): () => void {
    const reading = { labels, read };
    this.#all.push(reading);
    return () => {
      this.#all = this.#all.filter((each) => each !== reading);
    };
  }

  /** Removes all values with this label value. */
  remove(label: Label, value: string): void {
    this.#all = this.#all.filter(({ labels }) => labels[label] !== value);
  }

  [Symbol.iterator](): Iterator<Reading<Label>> {
    return this.#all[Symbol.iterator]();
  }
}

/*
 * prom-client sorts, joins and checks the labels in each `inc` and `observe`, even on the children that `labels()`
 * returns. A reconcile needs ten such calls. So this module counts in plain numbers, which prom-client reads at a
 * scrape.
 */

/** Creates a counter whose values are read at each scrape. Values with the same labels are added up. */
export function scrapedCounter<Label extends string>(
  registry: Registry,
  { name, help, labels }: MetricDefinition<Label>,
): Readings<Label> {
  const readings = new Readings<Label>();
  new Counter<Label>({
    name,
    help,
    labelNames: labels,
    registers: [registry],
    collect() {
      this.reset();
      for (const { labels, read } of readings) this.inc(labels, read() ?? 0);
    },
  });
  return readings;
}

/**
 * Creates a gauge whose values are read at each scrape. If several values have the same labels, the last added one
 * counts.
 */
export function scrapedGauge<Label extends string>(
  registry: Registry,
  { name, help, labels }: MetricDefinition<Label>,
): Readings<Label> {
  const readings = new Readings<Label>();
  new Gauge<Label>({
    name,
    help,
    labelNames: labels,
    registers: [registry],
    collect() {
      this.reset();
      for (const { labels, read } of readings) {
        const value = read();
        if (value !== undefined) this.set(labels, value);
      }
    },
  });
  return readings;
}

interface Reading<Label extends string> {
  readonly labels: Readonly<Partial<Record<Label, string>>>;
  readonly read: ReadValue;
}

/** The number of observed values in each bucket. */
export class Distribution {
  /** Ascending. A value belongs to the first bucket whose bound it does not exceed. */
  readonly #bounds: readonly number[];
  /** One more than the bounds: the last bucket is for values above all bounds. */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  /** Returns the cumulative buckets, the sum and the count, as in the exposition format. */
  values(metric: string, labels: Readonly<Record<string, string>>): readonly ExposedValue[] {
    let count = 0;
    const buckets = this.#counts.map((inBucket, index) => {
      count += inBucket;
      return { metricName: `${metric}_bucket`, labels: { le: this.#bounds[index] ?? '+Inf', ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${metric}_sum`, labels, value: this.#sum },
      { metricName: `${metric}_count`, labels, value: count },
    ];
  }
}

interface ExposedValue {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** A histogram with one {@link Distribution} for each set of labels. */
export class ScrapedHistogram<Label extends string> extends Histogram<Label> {
  readonly #name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #distributions = new Map<
    string,
    { readonly labels: Readonly<Record<Label, string>>; readonly distribution: Distribution }
  >();

  constructor(
    registry: Registry,
    { name, help, labels, buckets }: MetricDefinition<Label> & { readonly buckets: readonly number[] },
  ) {
    super({ name, help, labelNames: labels, buckets: [...buckets], registers: [registry] });
    this.#name = name;
    this.#help = help;
    this.#bounds = buckets;
  }

  /** Returns the distribution with these labels; the same object on each call. */
  distribution(labels: Readonly<Record<Label, string>>): Distribution {
    const key = JSON.stringify(labels);
    const known = this.#distributions.get(key);
    if (known !== undefined) return known.distribution;
    const distribution = new Distribution(this.#bounds);
    this.#distributions.set(key, { labels, distribution });
    return distribution;
  }

  /** Removes all distributions with this label value. */
  removeDistributions(label: Label, value: string): void {
    for (const [key, { labels }] of this.#distributions) if (labels[label] === value) this.#distributions.delete(key);
  }

  override async get(): ReturnType<Histogram<Label>['get']> {
    const values = [...this.#distributions.values()].flatMap(({ labels, distribution }) =>
      distribution.values(this.#name, labels),
    );
    const metric = { name: this.#name, help: this.#help, type: 'histogram', aggregator: 'sum', values };
    // `type` is declared as an enum that exists only in prom-client's types.
    return metric as unknown as Awaited<ReturnType<Histogram<Label>['get']>>;
  }

  /** The registry prefers this method for the text format. It is undeclared in prom-client; a test covers it. */
  getForPromString(): ReturnType<Histogram<Label>['get']> {
    return this.get();
  }
}
