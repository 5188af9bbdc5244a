/** The factor of each suffix, as exponents of ten and of two. */
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
 * The API server writes at most 22 characters. The limit bounds the time, which grows faster than the number of digits.
 */
const maxLength = 64;

/**
 * Converts a quantity to billionths, the API server's precision, and rounds away from zero as it does
 * (k8s.io/apimachinery/pkg/api/resource). Returns undefined for an invalid quantity, and for one of more than 64
 * characters.
 */
export function parseNanos(quantity: string): bigint | undefined {
  if (quantity.length > maxLength) return undefined;
  const [match, sign, whole = '', fraction = '', exponent, suffix = ''] = pattern.exec(quantity) ?? [];
  if (match === undefined || whole + fraction === '') return undefined;
  const [tens = 0, twos = 0] = exponent === undefined ? (exponents[suffix] ?? []) : [Number(exponent)];
  const digits = BigInt(whole + fraction) * 2n ** BigInt(twos);
  const shift = tens - fraction.length + 9;
  const size = shift >= 0 ? digits * 10n ** BigInt(shift) : divideRoundingUp(digits, 10n ** BigInt(-shift));
  return sign === '-' ? -size : size;
}

const divideRoundingUp = (dividend: bigint, divisor: bigint): bigint => (dividend + divisor - 1n) / divisor;

/** True if two quantities have the same value, in any notation. A quantity may be a JSON number. */
export function equalQuantities(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (!isScalar(a) || !isScalar(b)) return false;
  const nanos = parseNanos(String(a));
  return nanos !== undefined && nanos === parseNanos(String(b));
}

/**
 * Compares two quantities (`1Gi`, `1500m`, 2) by value, for example to sort them.
 *
 * @returns a negative number if `a` is less than `b`, a positive number if it is greater, 0 if they are equal.
 * @throws RangeError for an invalid quantity.
 */
export function compareQuantities(a: string | number, b: string | number): number {
  const [nanosA, nanosB] = [requireNanos(a), requireNanos(b)];
  if (nanosA === nanosB) return 0;
  return nanosA < nanosB ? -1 : 1;
}

function requireNanos(quantity: string | number): bigint {
  const nanos = parseNanos(String(quantity));
  if (nanos === undefined)
    throw new RangeError(`invalid quantity: ${JSON.stringify(String(quantity).slice(0, maxLength))}`);
  return nanos;
}

const isScalar = (value: unknown): value is string | number => typeof value === 'string' || typeof value === 'number';
