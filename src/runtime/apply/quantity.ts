/** What a suffix multiplies by: powers of ten and of two. */
const exponents: Readonly<Record<string, readonly [tens: number, twos: number]>> = {
  n: [-9, 0],
  u: [-6, 0],
  m: [-3, 0],
  '': [0, 0],
  k: [3, 0],
  M: [6, 0],
  G: [9, 0],
  T: [12, 0],
  P: [15, 0],
  E: [18, 0],
  Ki: [0, 10],
  Mi: [0, 20],
  Gi: [0, 30],
  Ti: [0, 40],
  Pi: [0, 50],
  Ei: [0, 60],
};

const pattern = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)$/;

/**
 * How many billionths a quantity is, rounded up in size, which is as fine as the API server keeps it
 * (k8s.io/apimachinery/pkg/api/resource); undefined for what is no quantity.
 */
function billionths(quantity: string): bigint | undefined {
  const [match, sign, whole = '', fraction = '', exponent, suffix = ''] = pattern.exec(quantity) ?? [];
  if (match === undefined || whole + fraction === '') return undefined;
  const [tens = 0, twos = 0] = exponent === undefined ? (exponents[suffix] ?? []) : [Number(exponent)];
  const digits = BigInt(whole + fraction) * 2n ** BigInt(twos);
  const shift = tens - fraction.length + 9;
  const size = shift >= 0 ? digits * 10n ** BigInt(shift) : dividedUp(digits, 10n ** BigInt(-shift));
  return sign === '-' ? -size : size;
}

const dividedUp = (dividend: bigint, divisor: bigint): bigint => (dividend + divisor - 1n) / divisor;

/** Whether two quantities are the same amount, however they are written; a quantity may be a JSON number too. */
export function equalQuantities(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (!isScalar(a) || !isScalar(b)) return false;
  const amount = billionths(String(a));
  return amount !== undefined && amount === billionths(String(b));
}

/**
 * Compares two quantities (`1Gi`, `1500m`, 2) by amount, as a sort does.
 *
 * @returns below 0 where the first is less, above 0 where it is more, 0 where both are one amount.
 * @throws RangeError for what is no quantity.
 */
export function compareQuantities(a: string | number, b: string | number): number {
  const [one, other] = [amountOf(a), amountOf(b)];
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function amountOf(quantity: string | number): bigint {
  const amount = billionths(String(quantity));
  if (amount === undefined) throw new RangeError(`no quantity: ${JSON.stringify(quantity)}`);
  return amount;
}

const isScalar = (value: unknown): value is string | number => typeof value === 'string' || typeof value === 'number';
