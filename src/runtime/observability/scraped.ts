import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** What a metric is called, and by what its values are told apart. */
export interface MetricDefinition<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
}

/** The values of a metric: each is read whenever the metrics are scraped, and costs nothing between. */
export class Readings<Label extends string> {
  #all: Reading<Label>[] = [];

  add(labels: Readonly<Record<Label, string>>, read: () => number): void {
    this.#all.push({ labels, read });
  }

  /** Those that have this value of a label are exposed no more. */
  remove(label: Label, value: string): void {
    this.#all = this.#all.filter(({ labels }) => labels[label] !== value);
  }

  [Symbol.iterator](): Iterator<Reading<Label>> {
    return this.#all[Symbol.iterator]();
  }
}

/*
 * prom-client sorts, joins and checks the labels at each `inc` and `observe`, also of the children that `labels()`
 * returns. A reconcile makes ten of these calls, so what is counted here are plain numbers, and prom-client reads them.
 */

/** A counter whose values are read at the scrape; those of the same labels are added up. */
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
      for (const reading of readings) this.inc(reading.labels, reading.read());
    },
  });
  return readings;
}

/** A gauge whose values are read at the scrape; of the same labels the value added last holds. */
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
      for (const reading of readings) this.set(reading.labels, reading.read());
    },
  });
  return readings;
}

interface Reading<Label extends string> {
  readonly labels: Readonly<Record<Label, string>>;
  readonly read: () => number;
}

/** How many values fell into each bucket. */
export class Distribution {
  /** Ascending; a value belongs to the first bound that it does not exceed. */
  readonly #bounds: readonly number[];
  /** One more than bounds: the last is for what exceeds them all. */
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

  /** The cumulative buckets, the sum and the count, as the exposition format has them. */
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

/** A histogram of {@link Distribution}s, one a set of labels. */
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

  /** The distribution under these labels; the same one each time. */
  distribution(labels: Readonly<Record<Label, string>>): Distribution {
    const key = JSON.stringify(labels);
    const known = this.#distributions.get(key);
    if (known !== undefined) return known.distribution;
    const distribution = new Distribution(this.#bounds);
    this.#distributions.set(key, { labels, distribution });
    return distribution;
  }

  /** Those that have this value of a label are exposed no more. */
  removeDistributions(label: Label, value: string): void {
    for (const [key, { labels }] of this.#distributions) if (labels[label] === value) this.#distributions.delete(key);
  }

  override async get(): ReturnType<Histogram<Label>['get']> {
    const values = [...this.#distributions.values()].flatMap(({ labels, distribution }) =>
      distribution.values(this.#name, labels),
    );
    const metric = { name: this.#name, help: this.#help, type: 'histogram', aggregator: 'sum', values };
    // The declared `type` is an enum that prom-client has in its types alone.
    return metric as unknown as Awaited<ReturnType<Histogram<Label>['get']>>;
  }

  /** What the registry asks first for the text form. Not declared, so the test of the exposition holds it. */
  getForPromString(): ReturnType<Histogram<Label>['get']> {
    return this.get();
  }
}
